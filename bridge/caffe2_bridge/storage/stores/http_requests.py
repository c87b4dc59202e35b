"""Requests of web servers, by the standard library alone."""

from __future__ import annotations

import base64
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Final
from urllib.parse import unquote, urlsplit

from caffe2_bridge.storage.errors import StorageDeniedError, StorageError, StorageNotFoundError
from caffe2_bridge.storage.retries import TransientError
from caffe2_bridge.storage.urls import HTTP, Url

_SECONDS: Final = 30.0  # without an answer
_RANGE_REFUSED: Final = 416
_DENIED: Final = frozenset({401, 403, 407})
_ABSENT: Final = frozenset({404, 410})
_OVERLOADED: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects to web servers, and never from an encrypted connection to one that is not."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:  # fmt: skip
        before, after = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if after not in HTTP or (before == "https" and after != "https"):
            raise StorageError(f"the server redirects to {newurl}, which is not followed", req.full_url)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@contextmanager
def requested(url: Url, headers: Mapping[str, str]) -> Iterator[Any]:
    """Yield the response to a GET request, also one with the status 416. Raises StorageError for other failures.

    A user and password in the URL are sent to its server alone, not to one that it redirects to.
    """
    with http_errors(url):
        response = _response(url, headers)
    try:
        yield response
    finally:
        response.close()


def _response(url: Url, headers: Mapping[str, str]) -> Any:
    user, at, server = url.root.rpartition("@")
    address = f"{url.scheme}://{server}/{url.path}{url.query}"
    request = urllib.request.Request(address, headers={"Accept-Encoding": "identity", **headers})  # noqa: S310 - http(s) alone is parsed
    if at:
        token = base64.b64encode(unquote(user).encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {token}")
    try:
        return urllib.request.build_opener(_Redirects).open(request, timeout=_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code == _RANGE_REFUSED:
            return error
        error.close()
        raise _refusal(error.code, url) from None


def _refusal(code: int, url: Url) -> StorageError:
    meaning = f"HTTP {code} {http.client.responses.get(code, '')}".strip()
    if code in _ABSENT:
        return StorageNotFoundError(f"the server has no such file ({meaning})", str(url))
    if code in _DENIED:
        return StorageDeniedError(f"the server denies access ({meaning})", str(url))
    if code in _OVERLOADED:
        return TransientError(f"the server failed ({meaning})", str(url))
    return StorageError(f"the server refused the request ({meaning})", str(url))


@contextmanager
def http_errors(url: Url) -> Iterator[None]:
    """Turn errors of connections into TransientErrors."""
    try:
        yield
    except StorageError:
        raise
    except ssl.SSLCertVerificationError as error:
        raise StorageError(f"the server's certificate is not valid: {error.verify_message}", str(url)) from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise StorageError(
                f"the server's certificate is not valid: {error.reason.verify_message}", str(url)
            ) from None
        raise TransientError(f"the server cannot be reached: {error.reason}", str(url)) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise TransientError(f"the connection was cut ({type(error).__name__}: {error})", str(url)) from None
