"""A Gradio page with next to nothing on it."""

import gradio as gr

with gr.Blocks(analytics_enabled=False) as demo:
    gr.HTML('<div class="lv-lane">bare</div>')
    gr.Button("Race", elem_id="race")

if __name__ == "__main__":
    demo.launch(ssr_mode=False)
