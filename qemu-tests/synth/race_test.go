//go:build race

package synth_test

// raceDetector says that the race detector is on, which allocates.
const raceDetector = true
