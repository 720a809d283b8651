// Opens each report in light and dark, on a desk and on phones, and in print.
import fs from "node:fs";
import path from "node:path";
import { chromium } from "playwright-core";

const [folder, shots] = process.argv.slice(2);
const axe = fs.readFileSync(new URL("./node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const views = [
  { name: "light", colorScheme: "light", viewport: { width: 1200, height: 900 } },
  { name: "dark", colorScheme: "dark", viewport: { width: 1200, height: 900 } },
  { name: "phone", colorScheme: "light", viewport: { width: 360, height: 740 } },
  { name: "small", colorScheme: "dark", viewport: { width: 320, height: 640 } },
];
const faults = [];
fs.mkdirSync(shots, { recursive: true });
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: quiet });

async function look(file, view) {
  const at = `${path.basename(file)} ${view.name}`;
  const context = await browser.newContext(view);
  const page = await context.newPage();
  page.on("request", (r) => {
    if (!r.url().startsWith("file:") && !r.url().startsWith("data:")) faults.push(`${at}: fetches ${r.url()}`);
  });
  page.on("dialog", (d) => { faults.push(`${at}: a name ran as code`); d.dismiss(); });
  page.on("pageerror", (e) => faults.push(`${at}: ${e}`));
  await page.goto(`file://${file}`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  if (wide > 0) faults.push(`${at}: the page is ${wide} pixels too wide`);
  const paper = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const bright = Number(paper.match(/\d+/)[0]) > 128;
  if (bright !== (view.colorScheme === "light")) faults.push(`${at}: paper is ${paper}`);
  await page.screenshot({ path: path.join(shots, `${at.replace(".html ", "_")}.png`), fullPage: true });
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run());
  if (found.passes.length < 20) faults.push(`${at}: axe-core looked at ${found.passes.length} rules only`);
  for (const v of found.violations) {
    faults.push(`${at}: axe ${v.id} (${v.impact}), ${v.nodes.length} times: ${v.nodes[0].html.slice(0, 200)}`);
  }
  if (view.name === "light") await print(page, at);
  await context.close();
}

async function print(page, at) {
  const file = path.join(shots, `${at.replace(".html ", "_")}.pdf`);
  await page.pdf({ path: file, preferCSSPageSize: true });
  const text = fs.readFileSync(file, "latin1");
  const size = text.match(/\/MediaBox\s*\[\s*0 0 ([\d.]+) ([\d.]+)/);
  // A4 is 595 x 842 points.
  if (!size || Math.abs(size[1] - 595) > 2 || Math.abs(size[2] - 842) > 2) faults.push(`${at}: not A4, ${size}`);
}

const files = fs.readdirSync(folder).filter((f) => f.endsWith(".html"));
for (const file of files) for (const view of views) await look(path.resolve(folder, file), view);
await browser.close();
console.log(`${files.length} reports, ${views.length} views each: ${faults.length} faults`);
faults.forEach((fault) => console.error(fault));
process.exit(faults.length || !files.length ? 1 : 0);
