"""Servers, a Chromium and pages for the browser tests. Screenshots go to artifacts/, to be looked at."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

ROOT = Path(__file__).resolve().parents[2]
ENSURE_CHROMIUM = Path(__file__).parent / "ensure_chromium.sh"
SAMPLES = ROOT / "assets" / "samples"
ARTIFACTS = ROOT / "artifacts"
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync "
    "--use-fake-device-for-media-stream --use-fake-ui-for-media-stream"  # a camera that shows a moving picture
).split()
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 360, "height": 740}


# how long the page may take to do something before a test says that it does not do it; a busy machine takes long
PATIENCE = 60
# for four frames, nothing moves, fades or scrolls (what turns without an end, as a wheel does, does not count, nor how long a notice stays)
STILL = """() => new Promise((done) => {
  let [frames, before] = [0, ""];
  const look = () => {
    const passes = (each) => each.playState === "running" && each.effect.getComputedTiming().endTime < Infinity
      && !each.effect.target.closest(".toast-body");
    const moves = document.getAnimations().some(passes);
    const now = [scrollX, scrollY, document.documentElement.scrollHeight].join();
    frames = moves || now !== before ? 0 : frames + 1;
    before = now;
    if (frames < 4) requestAnimationFrame(look);
    else done(true);
  };
  look();
})"""
expect.set_options(timeout=PATIENCE * 1000)


def until(page, look: Callable[[], object], expected: object = True, why: str = "") -> None:
    """See :meth:`Visit.until`; for a page that is not the product's own."""
    deadline = time.monotonic() + PATIENCE
    while (seen := look()) != expected:
        if time.monotonic() > deadline:
            pytest.fail(f"{why or 'The page never came to it'}: expected {expected!r}, after {PATIENCE} s still {seen!r}")
        page.wait_for_timeout(20)


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

    found = subprocess.run(["sh", str(ENSURE_CHROMIUM), "--find"], stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode:
        pytest.fail("There is no Chromium; make test says how to get it.")
    path = found.stdout.strip()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


class Browsers:
    """Chromium's profiles, lent to one tab at a time: the second tab of a profile finds Gradio's scripts in its cache, as a
    visitor does who comes back, and nothing else."""

    def __init__(self, chromium) -> None:
        self.chromium = chromium
        self.idle: dict[bool, list] = {True: [], False: []}

    def open(self, touch: bool, fresh: bool):
        if self.idle[touch] and not fresh:
            return self.idle[touch].pop()
        return self.chromium.new_context(has_touch=touch, accept_downloads=True)

    def take_back(self, tab: Visit) -> None:
        """Closes the tab. Its profile is used again if all that the page may have stored could be removed."""
        stays = not tab.fresh and not tab.page.is_closed()
        if stays:
            tab.page.evaluate("localStorage.clear(); sessionStorage.clear()")
            tab.page.close()
            tab.context.clear_cookies()
            self.idle[tab.touch].append(tab.context)
        else:
            tab.context.close()


@pytest.fixture(scope="session")
def browsers(chromium) -> Browsers:
    return Browsers(chromium)


class Visit:
    """A tab on the page, its requests and its complaints. ``fresh``: in a profile of its own, with nothing in its cache."""

    def __init__(self, browsers: Browsers, url: str, viewport: dict, theme: str, fresh: bool = False) -> None:
        self.touch, self.fresh = viewport == PHONE, fresh
        self.context = browsers.open(self.touch, fresh)
        self.page = self.context.new_page()
        self.page.set_viewport_size(viewport)
        self.page.emulate_media(color_scheme=theme)
        self.page.set_default_timeout(PATIENCE * 1000)
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.answered: list[str] = []
        for event in ("requestfinished", "requestfailed"):  # Gradio's page itself ends the stream of answers when it has the last one
            self.page.on(event, lambda request: self.answered.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(error.stack or str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        began = time.monotonic()
        self.page.goto(url)
        self.page.wait_for_selector(".lv-lane")
        self.page.wait_for_selector("#race:not([disabled])")
        self.seconds = time.monotonic() - began

    def until(self, look: Callable[[], object], expected: object = True, why: str = "") -> None:
        """Waits until ``look()`` is what is expected: the page answers an action a frame later, or when the server has answered."""
        until(self.page, look, expected, why)

    def still(self) -> None:
        """Waits until nothing on the page fades or scrolls any more, so that colours and places are the ones that stay."""
        self.page.wait_for_function(STILL)

    def advanced(self) -> None:
        """Opens the fold with the settings. Gradio builds what is in it only now, and sets each field to its first value once more
        a moment after it can be filled in."""
        self.page.locator("#advanced button").first.click()
        self.page.get_by_label("number input for Frames").wait_for()
        self.still()

    @property
    def hosts(self) -> set[str]:
        return {urlsplit(url).netloc for url in self.requests if url.startswith(("http", "ws"))}

    def loaded(self) -> None:
        """Waits until the page has its answer to what it asked of the server when it opened: Gradio calls a page that is left before
        that a broken connection."""
        self.until(lambda: any("/queue/data" in url for url in self.answered), why="the page has its first answer")

    def follow(self, link: str) -> None:
        """Goes to the other page of the app by its link."""
        self.loaded()
        self.answered.clear()
        self.page.get_by_role("link", name=link).click()

    def reload(self) -> None:
        """Loads the page again."""
        self.loaded()
        self.answered.clear()
        self.page.reload()

    def state(self, *names: str) -> str:
        """Waits until the board is in one of these states; returns which."""
        selector = ", ".join(f".lv-board[data-state={name}]" for name in names)
        self.page.wait_for_selector(selector, timeout=90_000)
        return self.page.get_attribute(".lv-board", "data-state")

    def strip(self, state: str = "ready"):
        self.page.wait_for_selector(f".lv-strip[data-state={state}]")
        return self.page.locator(".lv-strip")

    def sample(self, index: int = 0) -> None:
        """Picks a sample clip and waits until its frames are there."""
        button = self.page.locator(".lv-samples button").nth(index)
        name = (button.locator("video").get_attribute("src") or "").rsplit("/", 1)[-1]
        button.click()
        expect(self.strip()).to_contain_text(name)

    def upload(self, path: Path | str, state: str = "ready") -> None:
        self.page.locator("#video input[type=file]").set_input_files(path)
        self.strip(state)

    def open_file(self, path: Path | str) -> None:
        """Opens a saved race on a board where none has finished yet."""
        self.page.locator("input[type=file][accept='.jsonl']").set_input_files(path)
        self.state("finished")

    def ask(self, question: str) -> None:
        self.page.locator("#question textarea").fill(question)

    def race(self) -> None:
        self.page.click("#race")

    @property
    def headline(self):
        return self.page.locator(".lv-headline")

    def tokens(self, lane: str) -> int:
        return self.page.locator(f".lv-lane[data-lane={lane}] .lv-text .tk").count()

    def shot(self, name: str, full: bool = True) -> None:
        ARTIFACTS.mkdir(exist_ok=True)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png", full_page=full)


def complaints(tab: Visit) -> list[str]:
    """What the page wrote to the console as an error; a request that the test itself cut off is none."""
    return [error for error in tab.errors if not re.search("AbortError|ERR_ABORTED|net::ERR", error)]


@pytest.fixture
def visit(browsers):
    """Opens tabs: visit(server, viewport, theme, fresh). Afterwards no tab may have met an error or another host."""
    open_tabs = []

    def open_tab(server: Server, viewport: dict = DESKTOP, theme: str = "light", fresh: bool = False) -> Visit:
        tab = Visit(browsers, server.url, viewport, theme, fresh)
        open_tabs.append((tab, server))
        return tab

    yield open_tab
    for tab, server in open_tabs:
        hosts, errors = tab.hosts, complaints(tab)
        browsers.take_back(tab)
        assert hosts == {f"127.0.0.1:{server.port}"}
        assert errors == []
