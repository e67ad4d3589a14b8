"use strict";
// The page loads itself again, until the button says otherwise. Without scripts a meta element
// does so.
(function () {
  var place = document.getElementById("updates");
  var button = document.createElement("button");
  var timer;
  function start() {
    timer = setTimeout(function () { location.reload(); }, 1000 * Number(place.dataset.every));
    button.textContent = "Pause";
  }
  button.type = "button";
  button.addEventListener("click", function () {
    if (timer === undefined) { start(); return; }
    clearTimeout(timer);
    timer = undefined;
    button.textContent = "Continue";
  });
  start();
  place.append(" ", button);
})();
