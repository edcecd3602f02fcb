"""The verifier over HTTP, for other processes and machines: `maxatk serve`."""
