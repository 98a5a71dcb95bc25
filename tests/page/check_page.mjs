// SPDX-License-Identifier: Apache-2.0
//
// check_page.mjs - a page of `gradwire report` in a real browser: everything is
// drawn, can be pointed at, switched and zoomed; nothing is asked of a network.
//
//   node check_page.mjs CHROMIUM PAGE RUNS SHOTS-DIRECTORY

import { chromium } from "playwright-core";
import { pathToFileURL } from "node:url";

const [browserPath, pagePath, runsText, shots] = process.argv.slice(2);
const runs = Number(runsText);
const quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];
let count = 0, failed = 0;

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
  for (const y of ["loss", "test_accuracy"])
    for (const x of ["step", "seconds", "bytes_sent"]) check(plots.includes(`${y}-${x}`), `a plot of ${y} against ${x}`);
  for (const name of ["residual_norm-step", "drift-step"]) check(plots.includes(name), `a plot ${name}`);
  for (const plot of plots) check((await painted(page, plot)) > 500, `${plot} has something on it`);
  for (const name of ["time", "bits"]) {
    const rows = await page.$$(`[data-plot="${name}"] li`);
    check(rows.length === runs, `bars ${name}: ${rows.length} rows of ${runs}`);
  }
  check((await page.$$("tbody tr")).length === runs, "a row of settings per run");
  check((await page.$$(".switches button[data-run]")).length === runs, "a switch per run");
  check((await page.$$(".uplot")).length === plots.length, "one canvas per plot");
  return plots;
}

// Hiding all but one run takes ink away; the last to go leaves only the axes.
async function switching(page) {
  const before = await painted(page, "loss-step");
  await page.click(".switches button:has-text('none') >> nth=-1");
  const empty = await painted(page, "loss-step");
  check(empty < before, "without runs there is less on a plot");
  await page.click(".switches button[data-run='0']");
  await page.mouse.move(1, 1);
  const one = await painted(page, "loss-step");
  check(one > empty && (runs === 1 || one < before), `one run (${one}) is between none (${empty}) and all (${before})`);
  check((await page.getAttribute(".switches button[data-run='0']", "aria-pressed")) === "true", "its switch is pressed");
  if (runs > 1) check((await page.$$("tr.off")).length === runs - 1, "rows of hidden runs are dimmed");
  await page.click(".switches .plain >> nth=0");
  await page.mouse.move(1, 1);
  check((await painted(page, "loss-step")) === before, "all are back as they were");
}

// Pointing at a plot names the point there, and the same record in other plots.
async function hovering(page) {
  const box = await page.locator("[data-plot='loss-step'] .u-over").boundingBox();
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
  const before = await painted(page, "test_accuracy-step");
  const box = await page.locator("[data-plot='loss-step'] .u-over").boundingBox();
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width * 0.6, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.9, y, { steps: 4 });
  await page.mouse.up();
  await page.mouse.move(1, 1);
  check((await painted(page, "test_accuracy-step")) !== before, "zooming one plot zooms those with the same axis");
  await page.mouse.dblclick(box.x + box.width / 2, y);
  await page.mouse.move(1, 1);
  check((await painted(page, "test_accuracy-step")) === before, "a double click goes back");
}

async function logarithmic(page) {
  const before = await painted(page, "loss-seconds");
  await page.check("#logarithmic");
  check((await painted(page, "loss-seconds")) !== before, "the scale of time changes");
  await page.uncheck("#logarithmic");
  check((await painted(page, "loss-seconds")) === before, "and changes back");
}

async function noOverflow(page, what) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  check(wide <= 0, `${what}: nothing is wider than the window (${wide})`);
}

const browser = await chromium.launch({ executablePath: browserPath, args: quiet });
const looks = [["light", "light", 1280], ["dark", "dark", 1280], ["phone", "light", 390]];
for (const [name, colorScheme, width] of looks) {
  const page = await open(browser, { colorScheme, viewport: { width, height: 900 } });
  await plotsAreDrawn(page);
  await noOverflow(page, name);
  await page.screenshot({ path: `${shots}/${name}-${runs}.png`, fullPage: true });
  if (width > 1000) {
    await switching(page);
    await hovering(page);
    await zooming(page);
    await logarithmic(page);
  }
  check(page.complaints.length === 0, `${name}: ${page.complaints.join("; ")}`);
  console.log(`${name}, ${runs} runs: loaded in ${page.loaded} ms`);
  await page.close();
}
await browser.close();
console.log(`${count - failed} of ${count} checks passed`);
process.exit(failed > 0 ? 1 : 0);
