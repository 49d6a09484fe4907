"""Functions of arrays, with the papers' equations: matching, AP, TIDE, transplanting, mechanisms, parts, intervals."""
