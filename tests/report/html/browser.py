"""A real Chromium without a screen and without a network, for the tests of the page."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-extensions",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
DESKTOP = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}


def missing() -> str:
    """Return what stands in the way of a browser test; empty: nothing."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        return "needs chromium and chromedriver"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "needs selenium"
    return ""


class Browser:
    """One browser; each `open` is a page of its own."""

    def __init__(self) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        for flag in FLAGS:
            options.add_argument(flag)
        options.binary_location = str(shutil.which("chromium"))
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = Service(str(shutil.which("chromedriver")), log_output=subprocess.DEVNULL)
        self.driver = webdriver.Chrome(options, service)
        self.driver.execute_cdp_cmd("Network.enable", {})
        self.driver.execute_cdp_cmd(
            "Network.emulateNetworkConditions",
            {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0},
        )

    def open(self, path: Path, *, screen: dict | None = None, dark: bool = False, media: str = "") -> None:
        self.driver.get("about:blank")
        self.complaints(), self.requests()
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen or DESKTOP)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
        self.driver.get(path.resolve().as_uri())

    def run(self, script: str, *arguments: object):
        """Return what a script returns: the last statement has to say so."""
        return self.driver.execute_script(script, *arguments)

    def count(self, selector: str) -> int:
        return self.run("return document.querySelectorAll(arguments[0]).length", selector)

    def complaints(self) -> list[str]:
        """Return what the console has said since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Return the addresses that were asked for since the last call, those of the file itself apart."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [item["params"]["request"]["url"] for item in messages if item["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith(("file:", "data:", "about:"))]

    def picture(self, path: Path) -> None:
        """Save the whole page as a PNG."""
        size = self.run("return [document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
        import base64

        told = {"captureBeyondViewport": True, "clip": clip}
        path.write_bytes(base64.b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", told)["data"]))

    def close(self) -> None:
        self.driver.quit()
