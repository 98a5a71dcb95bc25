// SPDX-License-Identifier: Apache-2.0
//
// check_page.mjs - a page of `gradwire report` in a real browser: it says what
// recompute.py found, everything is drawn, can be pointed at, switched and zoomed;
// nothing is asked of a network.
//
//   node check_page.mjs CHROMIUM PAGE EXPECTED.json NAME SHOTS-DIRECTORY

import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";
import { pathToFileURL } from "node:url";
import { numberOf, verdictIs } from "./check_verdict.mjs";

const [browserPath, pagePath, expectedPath, shotName, shots] = process.argv.slice(2);
const expected = JSON.parse(readFileSync(expectedPath, "utf8"));
const runs = expected.runs;
const quiet = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
let count = 0,
  failed = 0;

function check(ok, what) {
  count++;
  if (ok) return;
  failed++;
  console.log("FAILED:", what);
}

// How many pixels of a plot are not background. A copy is read, because reading the
// canvas itself makes the browser complain.
async function painted(page, plot) {
  return page.evaluate((name) => {
    const canvas = document.querySelector(`[data-plot="${name}"] canvas`);
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
    let pixels = 0;
    for (let i = 3; i < data.length; i += 4) pixels += data[i] > 0 ? 1 : 0;
    return pixels;
  }, plot);
}

async function open(browser, options) {
  const page = await browser.newPage(options);
  page.complaints = [];
  page.on("console", (m) => page.complaints.push(`console: ${m.text()}`));
  page.on("pageerror", (e) => page.complaints.push(`error: ${e.message}`));
  page.on("request", (r) => {
    if (r.url() !== pathToFileURL(pagePath).href && !r.url().startsWith("data:"))
      page.complaints.push(`request: ${r.url()}`);
  });
  const begin = Date.now();
  await page.goto(pathToFileURL(pagePath).href);
  await page.waitForSelector("html[data-ready=yes]", { state: "attached" });
  page.loaded = Date.now() - begin;
  return page;
}

async function plotsAreDrawn(page) {
  const plots = await page.$$eval("figure.plot", (all) => all.map((f) => f.dataset.plot));
  const tests = (await page.$$(".caveats:has-text('tested once')")).length === 0 && runs > 1;
  for (const y of tests ? ["loss", "test_accuracy"] : ["loss"])
    for (const x of ["step", "seconds", "bytes_sent"])
      check(plots.includes(`${y}-${x}`), `a plot of ${y} against ${x}`);
  check(plots.includes("residual_norm-step") === runs > 1, "a plot of what is held back, if anything is");
  for (const plot of plots) check((await painted(page, plot)) > 500, `${plot} has something on it`);
  check((await page.$$("tbody tr[data-runs]")).length === runs, "a row of results per run");
  return plots;
}

// A point and a label per method; the pale ones are those that another one beats.
async function frontiersAreDrawn(page) {
  for (const cost of ["seconds", "bytes"]) {
    const boxes = await page.$$(`[data-plot="frontier-${cost}"]`);
    const compared = expected.groups.filter((group) => group.methods > 1);
    check(boxes.length === compared.length, `${boxes.length} plots of ${cost}`);
    for (const [i, box] of boxes.entries()) {
      const points = await box.$$eval(".point", (all) =>
        all.map((p) => [p.title.split(": ").slice(0, -1).join(": "), p.className]),
      );
      const labels = await box.$$eval(".label", (all) => all.map((l) => l.textContent));
      check(points.length === compared[i].methods, `${points.length} points of ${cost}`);
      check(labels.length === points.length && labels.every((text) => text !== ""), "each has a label");
      const strong = points
        .filter(([, name]) => !name.includes("pale"))
        .map(([name]) => name)
        .sort();
      check(strong.join() === compared[i][`frontier_${cost}`].join(), `not beaten in ${cost}: ${strong}`);
      const hit = await box.$$eval(".label", (all) => {
        const rects = all.map((l) => l.getBoundingClientRect());
        const over = (a, b) =>
          Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 &&
          Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
        return rects.filter((a, i) => rects.some((b, j) => j > i && over(a, b))).length;
      });
      check(hit === 0, `${hit} labels lie on others in ${cost}`);
    }
  }
}

// Sorted, with the number beside each bar, and the shortest of them long enough to see.
async function barsAreDrawn(page) {
  const figures = await page.$$("[data-plot='steps']");
  check(figures.length === expected.groups.length, "bars per group");
  for (const [i, figure] of figures.entries()) {
    const texts = await figure.$$eval(".of-total", (all) => all.map((v) => v.textContent));
    const steps = texts.map(numberOf);
    check(steps.length === expected.groups[i].methods, `${steps.length} bars`);
    check(
      steps.every((x, j) => Math.abs(x / expected.groups[i].steps[j] - 1) < 0.01),
      `times of a step: ${texts}`,
    );
    const widths = await figure.$$eval(".total", (all) => all.map((v) => v.getBoundingClientRect().width));
    check(Math.min(...widths) > 4, `the shortest bar has ${Math.min(...widths)} pixels`);
    const cut = await figure.$$eval(".name", (all) => all.filter((n) => n.scrollWidth > n.clientWidth + 1).length);
    check(cut === 0, `${cut} names are cut`);
  }
}

// One button per link and per method where runs are a grid.
async function controlsAreFew(page) {
  const buttons = (await page.$$(".choices button[data-runs]")).length;
  const grid = expected.groups.length > 1;
  const most = grid
    ? expected.groups.length + expected.groups[0].methods + (expected.seeds > 1 ? expected.seeds : 0)
    : runs;
  check(buttons === (runs === 1 ? 0 : most), `${buttons} buttons`);
}

// The canonical specs are on demand.
async function settingsOnDemand(page) {
  check((await page.$$("dl")).length === 0, "no settings at first");
  await page.click(".settings > summary");
  await page.click(".settings details > summary >> nth=0");
  await page.waitForSelector(".settings dl");
  const text = await page.textContent(".settings dl");
  check(/model_hash[0-9a-f]{16}/.test(text), `all settings: ${text}`);
  await page.click(".settings > summary");
}

// Hiding the runs one button at a time takes ink away; the last to go leaves the axes.
async function switching(page) {
  if (runs === 1) return;
  const before = await painted(page, "loss-step");
  const row = page
    .locator(".choices")
    .filter({ has: page.locator("[data-do]") })
    .first();
  await row.locator("[data-do='none']").click();
  const empty = await painted(page, "loss-step");
  check(empty < before, "without runs there is less on a plot");
  check((await page.$$("tr.off")).length === runs, "rows of hidden runs are dimmed");
  check((await page.$$(".frontier .point:not(.gone)")).length === 0, "and have no points");
  const first = row.locator("button[data-runs]").first();
  await first.focus();
  await page.keyboard.press("Enter");
  await page.mouse.move(1, 1);
  const one = await painted(page, "loss-step");
  check(one > empty && one < before, `one of them (${one}) is between none (${empty}) and all (${before})`);
  check((await first.getAttribute("aria-pressed")) === "true", "its button is pressed");
  await row.locator("[data-do='all']").click();
  await page.uncheck("tbody input >> nth=0");
  check((await page.$$("tr.off")).length === 1, "a run can be hidden in the table");
  await page.check("tbody input >> nth=0");
  await page.mouse.move(1, 1);
  check((await painted(page, "loss-step")) === before, "all are back as they were");
}

// All that can be clicked can be reached by Tab, and shows it.
async function keyboard(page) {
  const wanted = await page.$$eval("button, input, summary", (all) => all.filter((e) => e.checkVisibility()).length);
  await page.evaluate(() => document.activeElement?.blur());
  const seen = new Set();
  for (let i = 0; i < wanted + 2; i++) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => {
      const e = document.activeElement;
      if (e === document.body) return null;
      const all = [...document.querySelectorAll("button, input, summary")];
      return { index: all.indexOf(e), outline: getComputedStyle(e).outlineStyle };
    });
    if (at === null) continue;
    seen.add(at.index);
    check(at.outline !== "none", "the focus can be seen");
  }
  check(seen.size === wanted, `${seen.size} of ${wanted} controls are reached by Tab`);
}

// Where a plot lies in the window, once it is there.
async function inSight(page, name) {
  const plot = page.locator(`[data-plot='${name}'] .u-over`);
  await plot.evaluate((over) => over.scrollIntoView({ block: "center" }));
  return plot.boundingBox();
}

// Pointing at a plot names the point there, and the same record in other plots.
async function hovering(page) {
  const box = await inSight(page, "loss-step");
  let text = "";
  for (let i = 1; i < 40 && text === ""; i++) {
    await page.mouse.move(box.x + box.width * 0.5, box.y + (box.height * i) / 40);
    text = await page.$eval("[data-plot='loss-step'] .hint", (h) => (h.hidden ? "" : h.textContent));
  }
  check(/: .* at /.test(text), `a point is named: '${text}'`);
  const other = await page.$eval("[data-plot='loss-seconds'] .hint", (h) => (h.hidden ? "" : h.textContent));
  check(other.split(": ")[0] === text.split(": ")[0], `the same run in another plot: '${other}'`);
  await page.mouse.move(1, 1);
  check(await page.$eval("[data-plot='loss-step'] .hint", (h) => h.hidden), "and nothing when the pointer is gone");
}

// Ticks of an x axis would need the canvas to be read; the shared zoom is asked.
async function zooming(page) {
  const other = (await page.$("[data-plot='test_accuracy-step']")) ? "test_accuracy-step" : "loss-step";
  const before = await painted(page, other);
  const box = await inSight(page, "loss-step");
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width * 0.6, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.9, y, { steps: 4 });
  await page.mouse.up();
  await page.mouse.move(1, 1);
  check((await painted(page, other)) !== before, "zooming one plot zooms those with the same axis");
  await page.mouse.dblclick(box.x + box.width / 2, y);
  await page.mouse.move(1, 1);
  check((await painted(page, other)) === before, "a double click goes back");
}

async function logarithmic(page) {
  const before = await painted(page, "loss-seconds");
  await page.click("#logarithmic");
  check((await painted(page, "loss-seconds")) !== before, "the scale of time changes");
  await page.click("#logarithmic");
  check((await painted(page, "loss-seconds")) === before, "and changes back");
}

async function noOverflow(page, what) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  check(wide <= 0, `${what}: nothing is wider than the window (${wide})`);
}

// On paper: light, without controls, and nothing is wider than the sheet.
async function paper(browser) {
  const page = await open(browser, { colorScheme: "dark", viewport: { width: 794, height: 1100 } });
  await page.emulateMedia({ media: "print" });
  await page.evaluate(() => window.dispatchEvent(new Event("beforeprint")));
  check(
    (await page.$$eval(".controls", (all) => all.filter((e) => e.checkVisibility()).length)) === 0,
    "no controls on paper",
  );
  const back = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  check(back === "rgb(255, 255, 255)", `paper is white: ${back}`);
  await noOverflow(page, "paper");
  await page.screenshot({ path: `${shots}/paper-${shotName}.png`, fullPage: true });
  await page.pdf({ path: `${shots}/paper-${shotName}.pdf`, format: "A4" });
  await page.close();
}

const browser = await chromium.launch({ executablePath: browserPath, args: quiet });
const looks = [
  ["light", "light", 1280],
  ["dark", "dark", 1280],
  ["phone", "light", 390],
];
for (const [name, colorScheme, width] of looks) {
  const page = await open(browser, { colorScheme, viewport: { width, height: 900 } });
  await plotsAreDrawn(page);
  await frontiersAreDrawn(page);
  await barsAreDrawn(page);
  await noOverflow(page, name);
  await page.screenshot({ path: `${shots}/${name}-${shotName}.png`, fullPage: true });
  if (name === "light") {
    await verdictIs(page, expected, check);
    await controlsAreFew(page);
    await settingsOnDemand(page);
    await keyboard(page);
  }
  // Grids behave in the dark as others do.
  if (name === "light" || (name === "dark" && expected.groups.length === 1)) {
    await switching(page);
    await hovering(page);
    await zooming(page);
    await logarithmic(page);
  }
  check(page.complaints.length === 0, `${name}: ${page.complaints.join("; ")}`);
  console.log(`${name}, ${runs} runs: loaded in ${page.loaded} ms`);
  await page.close();
}
await paper(browser);
await browser.close();
console.log(`${count - failed} of ${count} checks passed`);
process.exit(failed > 0 ? 1 : 0);
