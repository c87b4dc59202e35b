"""Calls of Python code that are given up when they take too long."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextvars import copy_context
from typing import TypeVar

from caffe2_bridge.diagnostics import RunError

Result = TypeVar("Result")


class OutOfTimeError(RunError):
    """A run took longer than it may, and was given up."""


class _GivenUp(BaseException):
    """Ends the thread of a call whose result nobody waits for."""


def within(seconds: float, call: Callable[[], Result]) -> Result:
    """Call a function in a thread, and return its result.

    A thread that is given up ends at the next line of Python, so that it takes no more time than one call into C does.

    Raises OutOfTimeError if it takes longer than ``seconds``, and what the function raises.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except _GivenUp:
            return
        except BaseException as error:  # noqa: BLE001 - raised for the caller
            future.set_exception(error)

    thread = threading.Thread(target=copy_context().run, args=(run,), daemon=True)
    thread.start()
    try:
        return future.result(seconds)
    except FutureTimeoutError:
        if future.done():  # what the function raised, or in the last moment returned
            return future.result()
        raise OutOfTimeError(f"it did not answer within {seconds:g} seconds") from None
    finally:
        if not future.done():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_GivenUp))
