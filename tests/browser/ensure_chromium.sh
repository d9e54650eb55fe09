#!/bin/sh
# Sees to a Chromium for the browser tests and says where it is: one that is named by CHROMIUM or on the path, else Debian's, installed by
# root, with its headless shell, which draws no window around the page and so leaves more of the processors to the tests.
#   --find   says where it is, or fails; installs nothing
set -eu

find_chromium() {
    for name in chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$name" && return 0
    done
    return 1
}

if [ -n "${CHROMIUM:-}" ]; then
    command -v "$CHROMIUM" && exit 0
    echo "CHROMIUM names $CHROMIUM, which cannot be run." >&2
    exit 1
fi
if find_chromium; then
    exit 0
fi
if [ "${1:-}" = --find ]; then
    echo "The browser tests need Chromium; make test says how to get it." >&2
    exit 1
fi
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing Chromium for the browser tests ..." >&2
    apt-get update -qq >&2
    install="apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core fonts-liberation"
    export DEBIAN_FRONTEND=noninteractive
    $install chromium-headless-shell >/dev/null || $install >/dev/null  # older releases have no such package
    find_chromium
else
    echo "The browser tests need Chromium: install it (Debian: sudo apt-get install chromium) or name yours with make test CHROMIUM=/path/to/chromium." >&2
    exit 1
fi
