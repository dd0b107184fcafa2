//go:build !linux

package setup

// AdoptOrphans does nothing here: only Linux has it.
func AdoptOrphans() error { return nil }

// EndChildren does nothing here.
func EndChildren() {}
