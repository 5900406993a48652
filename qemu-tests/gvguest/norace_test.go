//go:build !race

package gvguest_test

// slowness is how much more time things take.
const slowness = 1
