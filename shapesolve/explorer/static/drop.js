"use strict";
const [target, file, said] = ["target", "file", "said"].map((id) => document.getElementById(id));
const token = new URLSearchParams(location.search).get("token");

async function show(model) {
  said.textContent = `Analyzing ${model.name} …`;
  said.className = "";
  try {
    const headers = { "X-Shapesolve-Token": token, "X-Shapesolve-Name": encodeURIComponent(model.name) };
    const answer = await fetch("/", { method: "POST", body: model, headers });
    if (!answer.ok) throw new Error(await answer.text());
    location.assign((await answer.json()).page);
  } catch (error) {
    said.textContent = error.message;
    said.className = "bad";
  }
  file.value = "";
}

file.addEventListener("change", () => file.files[0] && show(file.files[0]));
for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
  addEventListener(kind, (event) => {
    event.preventDefault();
    target.classList.toggle("over", kind === "dragenter" || kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files[0]) show(event.dataTransfer.files[0]);
  });
}
