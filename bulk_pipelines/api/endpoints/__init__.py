"""The endpoints, a module for each thing that they are about. Each module has a router of its own."""
