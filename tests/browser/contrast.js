// The contrast of every kind of word, and of what is written small, against what lies behind it.
() => {
  const numbers = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * (top[3] ?? 1) + below[i] * (1 - (top[3] ?? 1)));
  const linear = (value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([red, green, blue]) => 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  const behind = (node) => {
    const layers = [];
    for (; node; node = node.parentElement) layers.unshift(numbers(getComputedStyle(node).backgroundColor));
    return layers.filter((layer) => layer.length).reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const selectors = [
    ".lv-text .tk", ".lv-label", ".lv-figures dt", ".lv-figures dd", ".lv-headline", ".lv-detail", ".lv-badge", ".lv-note", ".lv-table td",
    ".lv-table th", ".lv-clock", ".lv-line-of", ".lv-strip-say", ".lv-samples span", "#race", "#pair-notice p",
  ];
  const lowest = {};
  for (const selector of selectors) {
    for (const node of document.querySelectorAll(selector)) {
      // a kind that did not occur is dimmed on purpose
      if (!node.offsetParent || node.closest(".none")) continue;
      const back = behind(node);
      const [high, low] = [luminance(over(numbers(getComputedStyle(node).color), back)), luminance(back)].sort((one, other) => other - one);
      const key = `${selector} ${[...node.classList].filter((name) => name.startsWith("k-")).join()}`.trim();
      lowest[key] = Math.min(lowest[key] ?? 99, (high + 0.05) / (low + 0.05));
    }
  }
  return lowest;
}
