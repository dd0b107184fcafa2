package study

import "fmt"

// Profile is the size at which an experiment runs.
type Profile string

// The profiles.
const (
	Smoke Profile = "smoke" // Runs everything once in seconds; its numbers mean nothing.
	Quick Profile = "quick" // Shows the sign of the claims on two CPU cores.
	Full  Profile = "full"  // The paper's setting.
)

// ParseProfile returns the profile with the given name.
func ParseProfile(name string) (Profile, error) {
	switch p := Profile(name); p {
	case Smoke, Quick, Full:
		return p, nil
	}
	return "", fmt.Errorf("profile %q is unknown; the profiles are smoke, quick and full", name)
}
