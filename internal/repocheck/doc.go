// Package repocheck holds the rules of this repository that a machine can
// check: where unsafe and system calls may be used, which way imports point,
// how long files and functions get. Its tests read the whole source tree.
//
// A rule is a function from files to problems, so that each is itself tested
// against a small made-up tree.
package repocheck
