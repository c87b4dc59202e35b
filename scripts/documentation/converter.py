"""The page that converts in the browser: docs/try, with a wheel of this project, its locations and its policy."""

from __future__ import annotations

import html
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = ROOT / "docs" / "try"


def settings() -> dict[str, Any]:
    """Return what docs/try/settings.json has: where the page loads what it needs from, and what that is."""
    found: dict[str, Any] = json.loads((SOURCE / "settings.json").read_text(encoding="utf-8"))
    return found


def write_converter(folder: Path, locations: Mapping[str, str] | None = None) -> None:
    """Write a folder that any web server can serve; of what is there, the page's own files and wheels are replaced.

    Args:
        folder: where to write.
        locations: addresses instead of those of the settings, by name; an address without a host is below the folder.

    Raises KeyError for a location that the settings do not have.
    """
    chosen = settings()
    for name, address in (locations or {}).items():
        if name not in chosen["locations"]:
            raise KeyError(f"{name} is not a location: {', '.join(chosen['locations'])}")
        chosen["locations"][name] = address
    shutil.copytree(SOURCE, folder, dirs_exist_ok=True)
    for wheel in folder.glob("caffe2_bridge-*.whl"):
        wheel.unlink()
    chosen["wheel"] = _build_wheel(folder).name
    (folder / "settings.json").write_text(json.dumps(chosen, indent=2) + "\n", encoding="utf-8")
    page = folder / "index.html"
    text = page.read_text(encoding="utf-8")
    for name, value in {"policy": policy(chosen["locations"]), **chosen["locations"]}.items():
        text = text.replace(f"{{{{{name}}}}}", html.escape(value, quote=False))
    page.write_text(text, encoding="utf-8")


def policy(locations: Mapping[str, str]) -> str:
    """Return the page's Content-Security-Policy: it connects to the locations alone, and its workers inherit that."""
    loaded = _sources(locations[name] for name in ("pyodide", "packages", "index", "files", "onnxruntime"))
    rules = {
        "default-src": "'none'",
        "script-src": "'self' blob: 'wasm-unsafe-eval'",
        "worker-src": "blob:",
        "connect-src": f"'self' blob: {loaded}".strip(),
        "style-src": "'self'",
        "img-src": "data:",
        "frame-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _sources(addresses: Any) -> str:
    return " ".join(dict.fromkeys(f"{address.rstrip('/')}/" for address in addresses if "://" in address))


def _build_wheel(folder: Path) -> Path:
    from hatchling.builders.wheel import WheelBuilder

    (path,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return Path(path)
