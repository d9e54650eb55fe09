# The page on a machine of one's own, with or without a GPU:
#   docker build -t lvspec-race . && docker run --gpus all -p 7860:7860 -v lvspec-models:/home/app/.cache lvspec-race
# PyTorch's wheels bring their own CUDA libraries; the machine needs a driver and the NVIDIA container toolkit.
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    GRADIO_ANALYTICS_ENABLED=False \
    GRADIO_SERVER_NAME=0.0.0.0 \
    GRADIO_SERVER_PORT=7860

RUN useradd --create-home --uid 1000 app && install -d -o app -g app /app /home/app/.cache
WORKDIR /app

# apart from the code: it changes less often
COPY requirements.txt .
RUN pip install -r requirements.txt

# a pair's calibration is written beside the bundled pair's, so the files are the user's
COPY --chown=app:app . .
USER app

EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f\"http://127.0.0.1:{os.environ['GRADIO_SERVER_PORT']}/\", timeout=4)"]
CMD ["python", "app.py"]
