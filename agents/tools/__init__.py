"""What a model may call, one module a tool; `agents.factory.TOOLS` lists them by name."""
