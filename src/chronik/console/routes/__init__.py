"""The endpoints of the API, one module per noun of docs/reference/console-api.md, all loaded at the start."""
