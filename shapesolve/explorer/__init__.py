"""Interactive page of an analysis: its tables, server, and notebook widget; `frontend` has the TypeScript code."""
