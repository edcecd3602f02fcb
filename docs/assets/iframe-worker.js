// A page that is read from a folder may not start a worker, so the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inner = frame.contentWindow;
      const page = frame.contentDocument;
      page.open();
      page.write("<!doctype html><title>search</title>");
      page.close();
      this.inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = page.createElement("script");
      this.ready = new Promise(loaded => { script.onload = loaded; });
      script.src = url;
      page.head.append(script);
    }
    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
