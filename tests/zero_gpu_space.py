"""A ZeroGPU Space on a machine without a GPU: the real package ``spaces`` in its ZeroGPU mode, with a scheduler that grants every GPU.

Run as a program: it starts the page's module as a Space does, runs the races of its first argument one after the other, and prints
what it saw as JSON. The forked process has a GPU in name only: its weights are put on the CPU instead.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

ROOT = Path(__file__).resolve().parents[1]
ASKED: list[dict] = []
REFUSING = threading.Event()


class Scheduler(BaseHTTPRequestHandler):
    """Answers what the package asks: grants, permits, takes back."""

    def do_POST(self) -> None:
        address = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(address.query).items()}
        ASKED.append({"path": address.path, **asked})
        body = b"{}"
        if address.path == "/schedule":
            if REFUSING.is_set():
                self.send_response(503)
                self.end_headers()
                return
            body = json.dumps({"idle": True, "nvidiaIndex": 0, "nvidiaUUID": "none", "allowToken": "token"}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *told) -> None:
        pass


def start_space() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scheduler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    cgroup = Path(sys.argv[2]) / "cgroup"
    cgroup.write_text("0::/space\n")
    os.environ |= {
        "SPACES_ZERO_GPU": "true",
        "SPACES_ZERO_DEVICE_API_URL": f"http://127.0.0.1:{server.server_port}",
        "ZEROGPU_PROC_SELF_CGROUP_PATH": str(cgroup),
    }


def without_a_gpu() -> None:
    """The forked process finds its weights on the CPU."""
    from spaces.zero import torch as bridge
    from spaces.zero.torch.patching import cuda_aliases

    def move(callback=None) -> None:
        for fake, original in cuda_aliases.items():
            fake.data = original

    bridge.init, bridge.move = lambda uuid: None, move


def main() -> dict:
    start_space()
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    import races

    without_a_gpu()
    import torch

    cuda = {"initialised": False}
    races.prepare()
    from lvspec_core.pairs import _loaded, forget, load_pair

    pair = next(iter(_loaded.values()))
    cuda["placed"] = pair.target.device.type
    cuda["warmed"] = len(pair.warmed)
    # a pair as one from the hub is: not bundled. Its weights are read by threads of transformers' own
    info = replace(pair.info, name="own", bundled=False, own=True, folder=sys.argv[2])
    own = load_pair(info, warm=False)
    cuda["own"] = [own.target.device.type, own.draft.device.type]
    forget(info)
    told = {"cuda": cuda, "races": [raced(races, asked) for asked in json.loads(sys.argv[1])]}
    cuda["initialised"] = torch.cuda.is_initialized()
    told["asked"] = ASKED
    return told


def raced(races, asked: dict) -> dict:
    """One race as the page runs it, in a thread of its own as Gradio has it. ``stops``: once it has begun; ``refuse``: no GPU is free."""
    from lvspec_core.errors import UserError
    from lvspec_core.settings import RaceSettings

    settings = RaceSettings(**{**asked["settings"], "methods": tuple(asked["settings"]["methods"])}).validated()
    stop, seen = threading.Event(), {"batches": 0, "types": [], "error": None, "kind": None}
    REFUSING.set() if asked.get("refuse") else REFUSING.clear()

    def race() -> None:
        try:
            for batch in races.race_stream(asked["video"], settings, stop):
                seen["batches"] += 1
                seen["types"] += [type(record).__name__ for record in batch]
                if type(batch[0]).__name__ == "Start":
                    seen["device"] = batch[0].environment["device"]
                if asked.get("stops") and "Round" in seen["types"]:
                    stop.set()
        except UserError as error:
            seen["error"], seen["kind"] = str(error), type(error).__name__

    thread = threading.Thread(target=race)
    thread.start()
    thread.join(120)
    seen["ended"] = not thread.is_alive()
    return seen


if __name__ == "__main__":
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the package prints to standard output
    found = main()
    print(json.dumps(found), file=output, flush=True)
    for forked in multiprocessing.active_children():  # they wait for more, and would hold this output open
        forked.kill()
    os._exit(0)
