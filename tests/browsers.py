"""Starts Chromium for browser tests. It must be installed unless POSTROOM_TEST_BROWSER=skip is set."""

import os
import shutil

import pytest

_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)

needs_browser = pytest.mark.skipif(
    os.environ.get("POSTROOM_TEST_BROWSER") == "skip", reason="POSTROOM_TEST_BROWSER=skip"
)


def launch_options():
    """Keyword arguments for playwright's `chromium.launch`."""
    # The shell takes less than half the CPU time of a browser with windows, headless or not.
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        pytest.fail("Chromium is missing. Install it, or set POSTROOM_TEST_BROWSER=skip.")
    return {"executable_path": path, "args": list(_FLAGS)}
