/*
 * Browsers refuse web workers to pages that are opened from a folder (file://). There, the worker of the site's search
 * is run in a hidden frame. The theme looks for the name IFrameWorker.
 */
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inner = this.frame.contentWindow;
      this.listen = (event) => {
        if (event.source !== inner) return;
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      };
      window.addEventListener("message", this.listen);
      this.ready = new Promise((resolve) => this.frame.addEventListener("load", resolve, { once: true }));
      inner.document.open();
      inner.document.write(
        "<html><body><script>" +
          "postMessage = (data) => parent.dispatchEvent(new MessageEvent('message', { data, source: window }));" +
          "importScripts = (...urls) => urls.reduce((done, url) => done.then(() => new Promise((resolve, reject) => {" +
          "  const script = document.createElement('script'); script.src = url;" +
          "  script.onload = resolve; script.onerror = reject; document.body.appendChild(script);" +
          "})), Promise.resolve());" +
          "<\/script><script src='" + new URL(url, location.href) + "'><\/script></body></html>"
      );
      inner.document.close();
    }

    postMessage(data) {
      const inner = this.frame.contentWindow;
      this.ready.then(() => inner.dispatchEvent(new inner.MessageEvent("message", { data })));
    }

    terminate() {
      window.removeEventListener("message", this.listen);
      this.frame.remove();
    }
  };
}
