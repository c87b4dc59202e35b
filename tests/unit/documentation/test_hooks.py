"""Hooks of the site."""

from __future__ import annotations

from documentation.hooks import on_page_content


def test_roles_of_docstrings_are_left_out() -> None:
    page = "<p>as :func:<code>load</code> does</p><td>func:<code>save</code></td><p>class: <code>a</code></p>"
    assert on_page_content(page) == (
        "<p>as <code>load</code> does</p><td><code>save</code></td><p>class: <code>a</code></p>"
    )
