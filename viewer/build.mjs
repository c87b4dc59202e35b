// Bundle the viewer into one file, with the licences of what is in it: node build.mjs OUT DIGEST
import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const [out, digest] = process.argv.slice(2);
const licences = ["@dagrejs/dagre", "@dagrejs/graphlib"].map(name => {
  const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`));
  return `${name} ${version}\n\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}`;
});
const { outputFiles } = await build({
  entryPoints: ["src/app.js"], bundle: true, minify: true, format: "iife", target: "es2022", charset: "ascii",
  legalComments: "none", loader: { ".css": "text" }, write: false,
});
// In a page: no end of the script, and no control characters, which the strings of graphlib have.
const code = outputFiles[0].text.replaceAll("</", "<\\/").replaceAll("\x01", "\\x01").replaceAll("\0", "\\0");
const notice = ["caffe2-bridge: the interactive picture of a model; scripts/viewer builds it.", `Sources: ${digest}`, "It contains:", ...licences];
writeFileSync(out, `/*!\n${notice.join("\n\n")}\n*/\n${code}`);
