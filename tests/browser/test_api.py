"""The page's endpoints, as README.md shows them: for Python clients and for MCP clients."""

from __future__ import annotations

import asyncio
import base64
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

ROOT = Path(__file__).resolve().parents[2]
CLIP = ROOT / "assets" / "samples" / "shapes-4-2-moving.mp4"
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def client(server):
    return Client(server.url, verbose=False)


def test_a_client_races_a_file(client):
    answer = client.predict(handle_file(CLIP), methods=["ar", "lvspec"], settings={"max_new_tokens": 48}, api_name="/race")
    assert list(answer["summary"]["lanes"]) == ["ar", "lvspec"]
    assert answer["summary"]["lanes"]["lvspec"]["speedup_decode"] > 0
    assert answer["records"][0]["type"] == "start"
    assert answer["records"][-1] == {"finish": "finished", "type": "end", "wall_seconds": answer["records"][-1]["wall_seconds"]}
    for lane in answer["summary"]["lanes"].values():
        assert sum(lane["verdicts"].values()) == lane["tokens"] <= 48


def test_a_client_sees_what_the_models_see(client):
    strip = client.predict(handle_file(CLIP), frames=3, api_name="/film_strip")
    assert [frame["image"][:23] for frame in strip["frames"]] == ["data:image/jpeg;base64,"] * 3
    assert strip["video"]["frames"] == 3


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [({"frames": 999}, "choose a number between 1 and 128"), ({"pair": "nope"}, "Unknown pair"), ({"speed": 1}, "Unknown setting")],
)
def test_a_client_gets_the_sentence(client, settings, sentence):
    with pytest.raises(AppError, match=sentence):
        client.predict(handle_file(CLIP), settings=settings, api_name="/race")


def test_the_example_of_the_readme_runs(server, capsys, monkeypatch):
    example = re.search(r"```python\n(from gradio_client.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert example, "README.md shows a gradio_client example"
    monkeypatch.chdir(ROOT)
    exec(example[1].replace("http://127.0.0.1:7860", server.url), {})
    assert "lvspec" in capsys.readouterr().out


def test_an_mcp_client_finds_and_uses_the_tools(server):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async def talk():
        async with streamable_http_client(f"{server.url}gradio_api/mcp/") as streams, ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            tools = {tool.name: tool for tool in (await session.list_tools()).tools}
            name = next(name for name in tools if name.endswith("film_strip"))
            url = "data:video/mp4;base64," + base64.b64encode(CLIP.read_bytes()).decode()
            return tools, await session.call_tool(name, {"file": url, "frames": 2})

    # in a thread of its own: Playwright's loop may be running in this one
    with ThreadPoolExecutor(1) as thread:
        tools, strip = thread.submit(asyncio.run, talk()).result()
    race = next(tool for name, tool in tools.items() if name.endswith("race"))
    assert "decoding methods" in race.description
    assert {"file", "question", "methods", "settings"} <= set(race.inputSchema["properties"])
    assert not strip.isError
    assert "data:image/jpeg" in strip.content[0].text
