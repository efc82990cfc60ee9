"""The last stage of an import: what batches, coming in any order, could not know of each other is put right."""
