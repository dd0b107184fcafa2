package experiments

func classFolders(dir string) (effectAugSource, bool) { return effectAugSource{}, false }
