// SPDX-License-Identifier: Apache-2.0
//
// Makes one HTML file of the page: script and style are bundled into it, and a
// mark stays where the command will write the runs.
//
//   node build.mjs OUTPUT.html

import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";

const here = new URL(".", import.meta.url);
const output = process.argv[2] ?? "page.html";

async function bundle(entry) {
  const result = await build({
    entryPoints: [new URL(entry, here).pathname],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: ["es2020"],
    charset: "ascii",
    legalComments: "inline",
    outdir: "unused",
  });
  return result.outputFiles[0].text;
}

const [template, licence, script, style] = await Promise.all([
  readFile(new URL("src/page.html", here), "utf8"),
  readFile(new URL("node_modules/uplot/LICENSE", here), "utf8"),
  bundle("src/page.js"),
  bundle("src/page.css"),
]);
// Every page is a copy of the chart library, so it carries the library's licence.
const notice = `/* uPlot\n\n${licence.trim()} */\n`;
// A function as replacement, or "$&" in the bundle would mean something.
const page = template
  .replace("/*STYLE*/", () => style)
  .replace("/*SCRIPT*/", () => notice + script.replaceAll("</script", "<\\/script"));
if (page.split("<!--RUNS-->").length !== 2) throw new Error("one <!--RUNS--> mark is needed");
await writeFile(output, page);
