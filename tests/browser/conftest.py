"""Servers, a Chromium and pages for the browser tests. Screenshots go to artifacts/, to be looked at."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "assets" / "samples"
ARTIFACTS = ROOT / "artifacts"
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 360, "height": 740}


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)


class Server:
    """A page served by a process of its own; ``seconds`` it took until it answered."""

    def __init__(self, script: Path, log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self.log = log
        environment = {
            **os.environ,
            "GRADIO_SERVER_PORT": str(self.port),
            "GRADIO_MCP_SERVER": "True",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
        }
        began = time.monotonic()
        with log.open("w") as output:
            self.process = subprocess.Popen([sys.executable, str(script)], cwd=ROOT, env=environment, stdout=output, stderr=output)
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() - began > 60:
                self.close()
                raise RuntimeError(f"the page did not start:\n{log.read_text()}")
            time.sleep(0.1)
        self.seconds = time.monotonic() - began

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.url, timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()


@contextmanager
def serving(script: Path, folder: Path):
    server = Server(script, folder / f"{script.stem}.log")
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The product as `make run` starts it, with the bundled pair."""
    with serving(ROOT / "app.py", tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A Gradio page with next to nothing on it: what any page costs on this machine."""
    with serving(Path(__file__).parent / "bare_server.py", tmp_path_factory.mktemp("bare")) as running:
        yield running


@pytest.fixture(scope="session")
def standin(tmp_path_factory):
    """The page with a stand-in for the models; the question says how the race goes (tests/fake_race.py)."""
    with serving(Path(__file__).parent / "standin_server.py", tmp_path_factory.mktemp("standin")) as running:
        yield running


@pytest.fixture(scope="session")
def chromium():
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


class Visit:
    """A tab on the page, its requests and its complaints."""

    def __init__(self, chromium, url: str, viewport: dict, theme: str) -> None:
        self.context = chromium.new_context(viewport=viewport, color_scheme=theme, has_touch=viewport == PHONE, accept_downloads=True)
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.answered: list[str] = []
        self.page.on("requestfinished", lambda request: self.answered.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(error.stack or str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        began = time.monotonic()
        self.page.goto(url)
        self.page.wait_for_selector(".lv-lane")
        self.page.wait_for_selector("#race:not([disabled])")
        self.seconds = time.monotonic() - began

    @property
    def hosts(self) -> set[str]:
        return {urlsplit(url).netloc for url in self.requests if url.startswith(("http", "ws"))}

    def reload(self) -> None:
        """Loads the page again, once it has its answer to what it asked of the server when it opened: Gradio calls a page that
        leaves before that a broken connection."""
        for _ in range(200):
            if any("/queue/data" in url for url in self.answered):
                break
            self.page.wait_for_timeout(50)
        self.answered.clear()
        self.page.reload()

    def state(self, *names: str, timeout: float = 90) -> str:
        """Waits until the board is in one of these states; returns which."""
        selector = ", ".join(f".lv-board[data-state={name}]" for name in names)
        self.page.wait_for_selector(selector, timeout=timeout * 1000)
        return self.page.get_attribute(".lv-board", "data-state")

    def strip(self, state: str = "ready"):
        self.page.wait_for_selector(f".lv-strip[data-state={state}]")
        return self.page.locator(".lv-strip")

    def sample(self, index: int = 0) -> None:
        self.page.locator(".lv-samples button").nth(index).click()
        self.strip()

    def upload(self, path: Path | str, state: str = "ready") -> None:
        self.page.locator("#video input[type=file]").set_input_files(path)
        self.strip(state)

    def ask(self, question: str) -> None:
        self.page.locator("#question textarea").fill(question)

    def race(self) -> None:
        self.page.click("#race")

    def headline(self) -> str:
        return self.page.inner_text(".lv-headline")

    def tokens(self, lane: str) -> int:
        return self.page.locator(f".lv-lane[data-lane={lane}] .lv-text .tk").count()

    def shot(self, name: str, full: bool = True) -> None:
        ARTIFACTS.mkdir(exist_ok=True)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png", full_page=full)

    def close(self) -> None:
        self.context.close()


@pytest.fixture
def visit(chromium):
    """Opens tabs: visit(server, viewport, theme). Afterwards no tab may have met an error or another host."""
    open_tabs = []

    def open_tab(server: Server, viewport: dict = DESKTOP, theme: str = "light") -> Visit:
        tab = Visit(chromium, server.url, viewport, theme)
        open_tabs.append((tab, server))
        return tab

    yield open_tab
    for tab, server in open_tabs:
        hosts = tab.hosts
        errors = [error for error in tab.errors if not re.search("AbortError|ERR_ABORTED|net::ERR", error)]
        tab.close()
        assert hosts == {f"127.0.0.1:{server.port}"}
        assert errors == []
