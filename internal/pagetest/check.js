// Opens HTML pages in headless Chromium, light and dark, at 390 and 1280 pixels, and runs axe-core
// on each, tries the keyboard, and measures where the first figure of a sweep or a study begins. Arguments: pages.
// Environment: CHROMIUM is the browser's path, SHOTS a folder for screenshots (without it there are none).
"use strict";
const path = require("path");
const fs = require("fs");
const { chromium } = require("playwright-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

// keyboard uses the page without a mouse: the first tab stop leads past the navigation, and Enter on a
// table's head sorts it.
async function keyboard(page) {
  const errors = [];
  const active = () => page.evaluate(() => document.activeElement.id || document.activeElement.className);
  if (!(await page.getByRole("button", { name: "Continue" }).count())) {
    await page.keyboard.press("Tab");
    if ((await active()) !== "skip") { errors.push("the first tab stop is " + (await active()) + ", not the way past the navigation"); }
    await page.keyboard.press("Enter");
    if ((await active()) !== "main") { errors.push("the way past the navigation leads to " + (await active())); }
    await page.locator("th button").first().focus();
    await page.keyboard.press("Enter");
    if (!(await page.locator("th[aria-sort]").count())) { errors.push("Enter on the head of a table does not sort it"); }
    await page.evaluate(() => document.activeElement.blur());
  }
  return errors;
}

(async () => {
  const shots = process.env.SHOTS;
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync"],
  });
  let bad = 0;
  for (const file of process.argv.slice(2)) {
    for (const colorScheme of ["light", "dark"]) {
      for (const width of [390, 1280]) {
        const name = `${file} ${colorScheme} ${width}`;
        // The page's policy keeps out scripts other than its own, axe-core too.
        const context = await browser.newContext({ colorScheme, viewport: { width, height: 844 }, bypassCSP: true });
        const page = await context.newPage();
        const errors = [];
        page.on("pageerror", (e) => errors.push(String(e)));
        await page.goto("file://" + path.resolve(file));
        const pause = page.getByRole("button", { name: "Pause" }); // of a page that loads itself again
        if (await pause.count()) { await pause.click(); }
        errors.push(...(await keyboard(page)));
        const tops = await page.evaluate(() => {
          const top = (s) => { const e = document.querySelector(s); return e ? Math.round(e.getBoundingClientRect().top + scrollY) : Infinity; };
          if (!document.querySelector("#results, .part > .headline")) { return null; } // no sweep, and no study with results
          return { answers: document.querySelectorAll(".answers > li").length, figure: top("figure"), table: top("table"), list: top("main li") };
        });
        // The answers of a study are a list before its figures.
        const most = tops && tops.answers ? (width < 600 ? 900 : 600) : (width < 600 ? 700 : 500);
        if (tops && !(tops.figure < most && tops.figure < tops.table && (tops.answers || tops.table < tops.list))) {
          errors.push(`the first figure begins ${tops.figure} pixels down, the first table ${tops.table}, the first list ${tops.list}`);
        }
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        if (wide > 0) { errors.push(`the page is ${wide} pixels wider than the screen`); }
        for (const alt of await page.evaluate(() => Array.from(document.images).filter((i) => !i.naturalWidth).map((i) => i.alt))) {
          errors.push("a figure that does not load: " + alt);
        }
        if (shots) {
          const shot = path.basename(path.dirname(path.resolve(file))) + "-" + path.basename(file, ".html") + `-${colorScheme}-${width}.png`;
          await page.screenshot({ path: path.join(shots, shot), fullPage: true });
        }
        // All that is folded is checked too.
        await page.evaluate(() => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
        await page.evaluate(axe);
        const found = (await page.evaluate(() => window.axe.run(document))).violations;
        for (const v of found) {
          const text = `${v.impact}: ${v.id}: ${v.help}: ${v.nodes.length} times, first ${v.nodes[0].html.slice(0, 200)}`;
          if (v.impact === "serious" || v.impact === "critical") { errors.push(text); } else { console.log(`${name}: ${text}`); }
        }
        for (const e of errors) { console.log(`${name}: ${e}`); }
        if (errors.length === 0) { console.log(`${name}: ok`); }
        bad += errors.length;
        await context.close();
      }
    }
  }
  await browser.close();
  console.log(bad === 0 ? "no serious finding" : `${bad} problems`);
  process.exitCode = bad === 0 ? 0 : 1;
})();
