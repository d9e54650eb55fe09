"""The real page with a stand-in for the models behind the worker's border: what takes a crash, a queue or an endless race to see."""

from __future__ import annotations

import app
import lvspec_core.worker as worker

if __name__ == "__main__":
    worker._worker = worker.RaceWorker(runner="fake_race:run")
    app.demo.queue(max_size=64).launch(**app.launch_options())
