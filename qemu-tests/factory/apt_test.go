package factory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDebNames(t *testing.T) {
	uris := "'http://mirror.example/pool/main/q/qemu/qemu_11.1%2bds_amd64.deb' qemu-system-x86_1%3a11.1+ds-1_amd64.deb 1234 SHA256:ab\n" +
		"E: something else\n" +
		"'file:/srv/a_1_all.deb' a_1_all.deb 5 \n"
	want := []string{"qemu-system-x86_1%3a11.1+ds-1_amd64.deb", "a_1_all.deb"}
	if diff := cmp.Diff(want, debNames(uris)); diff != "" {
		t.Error(diff)
	}
	if got := debNames(""); got != nil {
		t.Errorf("names in nothing: %q", got)
	}
}

func TestIsDebianMirror(t *testing.T) {
	tests := []struct {
		target aptTarget
		want   bool
	}{
		{aptTarget{"http://mirror.example/debian/", "bookworm"}, true},
		{aptTarget{"http://mirror.example/debian/", "trixie-updates"}, true},
		{aptTarget{"http://mirror.example/debian/", "stable"}, true},
		{aptTarget{"http://mirror.example/debian-security/", "trixie-security"}, false},
		{aptTarget{"http://security.example/", "bookworm"}, false},
		{aptTarget{"https://vendor.example/repo/", "nodistro"}, false},
		{aptTarget{"https://vendor.example/apt/", "sdk-bookworm"}, false},
	}
	for _, tt := range tests {
		if got := isDebianMirror(tt.target); got != tt.want {
			t.Errorf("isDebianMirror(%v) = %v", tt.target, got)
		}
	}
}

func TestRunToolSaysWhatTheToolSaid(t *testing.T) {
	out, err := runTool(t.Context(), "sh", "-c", "echo fine")
	if err != nil || out != "fine\n" {
		t.Errorf("%q, %v", out, err)
	}
	_, err = runTool(t.Context(), "sh", "-c", "echo broken >&2; exit 3")
	if got, want := err.Error(), "sh: exit status 3: broken"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}

func TestLastLines(t *testing.T) {
	if got := lastLines("a\nb\nc\n", 2); got != "b\nc" {
		t.Errorf("%q", got)
	}
	if got := lastLines("a", 2); got != "a" {
		t.Errorf("%q", got)
	}
}
