#!/bin/sh
# Sees to a Chromium for the browser tests: one that is named by CHROMIUM or on the path, else Debian's, installed by root.
set -eu

for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome google-chrome-stable; do
    if [ -n "$name" ] && command -v "$name" >/dev/null 2>&1; then
        exit 0
    fi
done

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing Chromium for the browser tests ..."
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core fonts-liberation >/dev/null
else
    echo "The browser tests need Chromium: install it (Debian: sudo apt-get install chromium) or name yours with make test CHROMIUM=/path/to/chromium." >&2
    exit 1
fi
