// @ts-check
"use strict";

const sections = [...document.querySelectorAll("section")];
const slider = /** @type {HTMLInputElement} */ (document.getElementById("step"));
const number = /** @type {HTMLOutputElement} */ (document.getElementById("number"));
const play = /** @type {HTMLButtonElement} */ (document.getElementById("play"));
/** @type {number | undefined} */
let timer;

/** Show one glimpse. */
function show() {
  const step = Number(slider.value);
  sections.forEach((section, place) => { section.hidden = place !== step - 1; });
  number.value = `${step} of ${sections.length}`;
}

/** Show the next glimpse, and the first after the last. */
function advance() {
  slider.value = String(Number(slider.value) % sections.length + 1);
  show();
}

/** Start or stop the animation. */
function toggle() {
  const playing = timer === undefined;
  if (playing) {
    timer = window.setInterval(advance, 900);
  } else {
    window.clearInterval(timer);
    timer = undefined;
  }
  play.textContent = playing ? "Stop" : "Play";
  play.setAttribute("aria-pressed", String(playing));
}

slider.addEventListener("input", show);
play.addEventListener("click", toggle);
show();
