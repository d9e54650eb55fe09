#!/bin/sh
# Sees to a Chromium for the browser tests: one that is named by CHROMIUM or on the path, else Debian's, installed by root, with its
# headless shell, which draws no window around the page and so leaves more of the processors to the tests.
set -eu

for name in "${CHROMIUM:-}" chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable; do
    if [ -n "$name" ] && command -v "$name" >/dev/null 2>&1; then
        exit 0
    fi
done

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing Chromium for the browser tests ..."
    apt-get update -qq
    install="apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core fonts-liberation"
    export DEBIAN_FRONTEND=noninteractive
    $install chromium-headless-shell >/dev/null || $install >/dev/null  # older releases have no such package
else
    echo "The browser tests need Chromium: install it (Debian: sudo apt-get install chromium) or name yours with make test CHROMIUM=/path/to/chromium." >&2
    exit 1
fi
