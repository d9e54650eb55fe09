"""LVSpec Race, the page: layout and wiring. What it does is in ``races``, how a race is drawn in ``lvspec_core.view``."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from pathlib import Path

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import gradio as gr
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from lvspec_core import view
from lvspec_core.links import read_link
from lvspec_core.settings import DEFAULT_QUESTION, FURTHER_RANGES, METHOD_TITLES, METHODS, PROPOSALS, RANGES
from page_pairs import LOCAL, OFFER, build_own_pair, pair_choices, pair_notice
from page_report import ROUTE, RaceBoard, build_report_page
from races import (
    DEFAULTS,
    KNOBS,
    MOST_IN_A_ROW,
    api_film_strip,
    api_race,
    open_race,
    prepare,
    race_in_a_row,
    race_on_page,
    show_strip,
    stop_race,
)

ASSETS = Path(__file__).parent / "assets"
SAMPLES = view.read_samples(ASSETS / "samples")
EXAMPLES = view.read_examples(ASSETS / "races")

# setting -> label, what it does, step of its control
CONTROLS = {
    "frames": ("Frames", "Sampled evenly over the clip. More frames: more to see, a longer prefill.", 1),
    "pruning_ratio": ("Pruning ratio", "Share of the video that the drafts of SpecVLM and LVSpec do not see.", 0.05),
    "draft_length": ("Draft length γ", "The most words the draft guesses before the target checks them.", 1),
    "max_new_tokens": ("Max new tokens", "Where a lane stops if its text has not ended.", 16),
    "seed": ("Seed", "For whatever is drawn at random. Greedy decoding draws nothing.", 1),
    "proposal": ("Proposal", "The shape of a guess: one chain of γ words, or a tree of alternatives.", None),
    "adaptive": (
        "Adaptive drafting",
        "The draft stops after a word that it gives less than this, LVSpec’s only at an anchor. 0: off.",
        0.05,
    ),
    "temperature": ("Temperature", "0: always the most probable word. Above: words are drawn; the higher, the bolder.", 0.05),
    "top_p": ("Top p", "Drawn from the fewest best words that hold this share. Matters above temperature 0.", 0.01),
    "plausibility": ("Plausibility ε", "A loose filler needs this share of the top choice’s probability.", 0.01),
    "top_k": ("Top k", "A loose filler must be among the target’s k best.", 1),
    "window": ("Window w", "Guesses after a loose filler on which the target must agree again. 0: off.", 1),
    "entropy_gate": ("Entropy gate", "Where the target is surer than this, nothing is loosened. 0: off.", 0.05),
    "shift": ("Shift s", "How far ahead a shifted word may stand. 0: off.", 1),
}
# nobody listens to the sound, and no model sees a frame this large
CAMERA = gr.WebcamOptions(
    mirror=False, constraints={"video": {"width": {"ideal": 1280}, "height": {"ideal": 720}, "facingMode": "environment"}, "audio": False}
)
# what a link to the page may set
LINKED = ("pair", "question", "methods", "anchor_quantile", *KNOBS)
GENERAL = ("frames", "pruning_ratio", "draft_length", "max_new_tokens", "seed", "proposal", "adaptive", "temperature", "top_p")
PROPOSAL_TITLES = {"chain": "chain", "static_tree": "static tree (25 words)", "dynamic_tree": "dynamic tree"}


class FilmStrip(gr.HTML):
    """The sampled frames of the chosen video."""


class Samples(gr.HTML):
    """The sample clips."""


class Examples(gr.HTML):
    """The recorded races."""


def pick_example(event: gr.EventData, request: gr.Request):
    return open_race(str(EXAMPLES[int(event.index)].path), request)


def open_link(query: Mapping[str, str], names: list[str]) -> list:
    """What the page's address asks for: a value or nothing for the video and for each named control."""
    clips = {each.path.name: str(each.path) for each in SAMPLES}
    link = read_link(query, names, clips)
    if link.complaint:
        gr.Warning(html.escape(link.complaint))
    values = {**link.settings}
    if "pair" in values and values["pair"] not in [info.name for info in OFFER.pairs]:
        gr.Warning(f"This page does not offer the pair {html.escape(values.pop('pair'))}, which the address names.")
    if "anchor_quantile" in values:
        values["calibrated"] = False
    if "methods" in values:
        values["methods"] = list(values["methods"])
    return [clips[link.sample] if link.sample else gr.skip(), *(values.get(name, gr.skip()) for name in names)]


def pick_sample(event: gr.EventData) -> str:
    return str(SAMPLES[int(event.index)].path)


def race_samples(request: gr.Request, *inputs):
    """The sample clips, one after the other."""
    yield from race_in_a_row(request, [str(each.path) for each in SAMPLES], *inputs)


def knob(name: str) -> gr.Slider | gr.Number | gr.Dropdown:
    label, info, step = CONTROLS[name]
    if name == "proposal":
        return gr.Dropdown([(PROPOSAL_TITLES[each], each) for each in PROPOSALS], value=DEFAULTS.proposal, label=label, info=info)
    low, high = (RANGES | FURTHER_RANGES)[name]
    if name == "seed":
        return gr.Number(getattr(DEFAULTS, name), label=label, info=info, minimum=low, maximum=high, precision=0)
    return gr.Slider(low, high, getattr(DEFAULTS, name), step=step, label=label, info=info)


def build() -> gr.Blocks:
    """The page."""
    with gr.Blocks(title="LVSpec Race", analytics_enabled=False, delete_cache=(3600, 6 * 3600)) as demo:
        gr.Navbar(main_page_name="Race")
        with gr.Row(equal_height=False):
            with gr.Column(scale=3, min_width=300):
                gr.HTML(view.TITLE.html, js_on_load=view.TITLE.script, apply_default_css=False)
            with gr.Column(scale=2, min_width=300):
                pair = gr.Dropdown(pair_choices(), value=DEFAULTS.pair, label="Models: target and draft", elem_id="pair")
        notice = gr.Markdown(pair_notice(DEFAULTS.pair, DEFAULTS.frames, METHODS), elem_id="pair-notice", elem_classes="lv-notice")
        with gr.Row(equal_height=False):
            with gr.Column(scale=5, min_width=320):
                video = gr.Video(label="Video", sources=["upload", "webcam"], webcam_options=CAMERA, height=340, elem_id="video")
            with gr.Column(scale=7, min_width=320):
                samples = Samples(
                    html_template=view.SAMPLES.html,
                    js_on_load=view.SAMPLES.script,
                    apply_default_css=False,
                    samples=[{"title": each.title, "alt": each.alt, "url": f"samples/{each.path.name}"} for each in SAMPLES],
                )
                examples = Examples(
                    html_template=view.EXAMPLES.html,
                    js_on_load=view.EXAMPLES.script,
                    apply_default_css=False,
                    examples=[{"title": each.title, "alt": each.alt} for each in EXAMPLES],
                )
                question = gr.Textbox(DEFAULT_QUESTION, label="Question", lines=1, max_lines=4, elem_id="question")
                methods = gr.CheckboxGroup(
                    [(METHOD_TITLES[method], method) for method in METHODS], value=list(METHODS), label="Methods", elem_id="methods"
                )
                start = gr.Button("Race", variant="primary", elem_id="race")
                stop = gr.Button("Stop", variant="stop", elem_id="stop")
        with gr.Accordion("Advanced", open=False, elem_id="advanced"):
            with gr.Row(elem_classes="lv-knobs"):
                knobs = [knob(name) for name in GENERAL]
            gr.Markdown("LVSpec’s own", elem_classes="lv-notice")
            with gr.Row(elem_classes="lv-knobs"):
                calibrated = gr.Checkbox(
                    True, label="Threshold as calibrated", info="The pair’s own, as measured. Untick to choose the share of fillers."
                )
                share = gr.Slider(
                    0,
                    1,
                    0.5,
                    step=0.05,
                    label="Share of fillers",
                    info="Of all words, by relevance: these may be verified loosely.",
                )
                knobs += [knob(name) for name in KNOBS if name not in GENERAL]
        if LOCAL:
            build_own_pair(pair)
        strip = FilmStrip(
            {"state": "empty"}, html_template=view.STRIP.html, js_on_load=view.STRIP.script, apply_default_css=False, elem_id="strip"
        )
        board = RaceBoard(
            html_template=view.BOARD.html,
            js_on_load=view.BOARD.script,
            apply_default_css=False,
            elem_id="board",
            plotly="plotly/plotly.min.js",
            share={
                "template": "view/export.html",
                "samples": [each.path.name for each in SAMPLES],
                "defaults": {name: value for name, value in DEFAULTS.to_dict().items() if name in LINKED},
            },
        )
        with gr.Row():
            download = gr.DownloadButton("Save this race (JSON lines)", interactive=False, size="sm", elem_id="download")
            opening = gr.UploadButton("Open a saved race", file_types=[".jsonl"], size="sm", elem_id="open-race")
            several = gr.UploadButton(
                f"Race several videos (up to {MOST_IN_A_ROW})", file_count="multiple", file_types=["video"], size="sm", elem_id="several"
            )
            every = gr.Button("Race all samples", size="sm", elem_id="every-sample")

        hidden = {"show_progress": "hidden", "api_visibility": "private"}
        racing = {
            "outputs": [board, download],
            "js": "(...inputs) => { window.lvspecStarting?.(); return inputs; }",
            "concurrency_limit": None,
            **hidden,
        }
        inputs = [pair, question, methods, calibrated, share, *knobs]
        start.click(race_on_page, [video, *inputs], **racing)
        several.upload(race_in_a_row, [several, *inputs], **racing)
        every.click(race_samples, inputs, **racing)
        controls = {"pair": pair, "question": question, "methods": methods, "calibrated": calibrated, "anchor_quantile": share}
        controls |= dict(zip(KNOBS, knobs, strict=True))

        def follow_link(request: gr.Request) -> list:
            return open_link(request.query_params, list(controls))

        demo.load(follow_link, None, [video, *controls.values()], **hidden)
        stop.click(stop_race, queue=False, **hidden)
        # one race at a time, but many who watch recorded ones
        examples.select(pick_example, None, board, concurrency_limit=8, **hidden)
        samples.select(pick_sample, None, video, **hidden)
        gr.on([pair.change, knobs[0].release, methods.change], pair_notice, [pair, knobs[0], methods], notice, **hidden)
        gr.on(
            [video.change, knobs[0].release],
            show_strip,
            [video, knobs[0]],
            strip,
            trigger_mode="always_last",
            concurrency_limit=8,
            **hidden,
        )
        opening.upload(open_race, opening, board, concurrency_limit=8, **hidden)
        build_api()
    with demo.route("Report", ROUTE):
        build_report_page(demo)
    return demo


def build_api() -> None:
    """The endpoints for programs: /race and /film_strip."""
    file = gr.File(visible=False, label="Video")
    question = gr.Textbox(DEFAULT_QUESTION, visible=False, label="Question")
    methods = gr.CheckboxGroup(list(METHODS), value=list(METHODS), visible=False, label="Methods")
    settings = gr.JSON({}, visible=False, label="Settings")
    frames = gr.Number(DEFAULTS.frames, precision=0, visible=False, label="Frames")
    answer = gr.JSON(visible=False, label="Answer")
    trigger = gr.Button(visible=False)
    trigger.click(api_race, [file, question, methods, settings], answer, api_name="race", concurrency_limit=8)
    trigger.click(api_film_strip, [file, frames], answer, api_name="film_strip", concurrency_limit=8)


# files of our own: Gradio rewrites the rules of its css argument and loses shorthands that hold a variable
HEAD = '<link rel="stylesheet" href="view/page.css"><script src="view/head.js"></script>'


# address -> what is sent: the files that the page's head names, and the page that an exported race is put into
PAGE_FILES = {
    "/view/page.css": (view.stylesheet, "text/css"),
    "/view/head.js": (view.head_script, "text/javascript"),
    "/view/export.html": (view.export_template, "text/plain"),
}


def page_file(request: Request) -> Response:
    """One of PAGE_FILES."""
    text, kind = next(file for path, file in PAGE_FILES.items() if request.url.path.endswith(path))
    return Response(text(), media_type=kind, headers={"Cache-Control": "no-cache"})


def launch_options() -> dict:
    """What the page needs from its server: nothing on it comes from another host."""
    fonts = ["Segoe UI", "Roboto", "Noto Sans", "Helvetica Neue", "Arial", "system-ui", "sans-serif"]
    mono = ["ui-monospace", "SF Mono", "Cascadia Mono", "Menlo", "Consolas", "Liberation Mono", "monospace"]
    routes = [
        Mount("/plotly", StaticFiles(directory=view.plotly_folder())),
        *(Route(path, page_file) for path in PAGE_FILES),
    ]
    if SAMPLES:
        routes.append(Mount("/samples", StaticFiles(directory=SAMPLES[0].path.parent)))
    return {
        "theme": gr.themes.Base(primary_hue="sky", neutral_hue="zinc", radius_size="md", font=fonts, font_mono=mono).set(
            **view.GRADIO_COLOURS
        ),
        "head": HEAD,
        "app_kwargs": {"routes": routes},
        "allowed_paths": [str(SAMPLES[0].path.parent)] if SAMPLES else [],
        "footer_links": ["api"],
        "run_history": False,
        "ssr_mode": False,
        "show_error": True,
    }


demo = build()

if __name__ == "__main__":
    prepare()
    demo.queue(max_size=64).launch(**launch_options())
