"""The last stage of an import: putting right what its batches, loaded in any order, could not know of each other."""
