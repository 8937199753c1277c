"""The interactive page of an analysis: its tables, server, and notebook widget; `frontend` holds the TypeScript."""
