package privileges

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestLookup(t *testing.T) {
	for spec, want := range map[string]Identity{
		"0":               {0, 0},
		"root":            {0, 0},
		"root:0":          {0, 0},
		"0:5":             {0, 5},
		"4000000001":      {4000000001, 4000000001},
		"4000000001:7":    {4000000001, 7},
		"4000000001:root": {4000000001, 0},
	} {
		if got, err := Lookup(spec); err != nil || got != want {
			t.Errorf("%s: %+v, error %v, want %+v", spec, got, err, want)
		}
	}
	for spec, want := range map[string]string{
		"no-such-user": `user "no-such-user" is unknown`,
		"0:no-such":    `group "no-such" is unknown`,
		"-1":           "unknown",
		"4294967295":   "unknown",
		"4294967296":   "unknown",
		"root:-1":      "unknown",
	} {
		if got, err := Lookup(spec); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, error %v, want %q", spec, got, err, want)
		}
	}
}

func TestMapsAll(t *testing.T) {
	for text, want := range map[string]bool{
		"         0          0 4294967295\n": true,
		"0 1000 1\n":                         false,
		"0 0 65536\n":                        false,
		"0 0 1\n1 1 4294967294\n":            false,
		"":                                   false,
	} {
		if mapsAll(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// TestBecome runs itself as another process, since there is no way back.
func TestBecome(t *testing.T) {
	const child = "VHOST_NET_GO_TEST_BECOME"
	if spec := os.Getenv(child); spec != "" {
		id, err := Lookup(spec)
		if err == nil {
			err = Become(id)
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile("/proc/self/task/" + lastThread(t) + "/status")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"Uid:\t65534\t65534\t65534\t65534\n", "Gid:\t65533\t65533\t65533\t65533\n", "Groups:\t \n", "CapEff:\t0000000000000000\n"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("status lacks %q:\n%s", want, text)
			}
		}
		if IsHostRoot() {
			t.Error("still root")
		}
		return
	}
	if err := Become(Identity{os.Getuid(), os.Getgid()}); err != nil {
		t.Errorf("staying who it is: %v", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestBecome$")
	cmd.Env = append(os.Environ(), child+"=65534:65533")
	out, err := cmd.CombinedOutput()
	if os.Geteuid() == 0 && err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if os.Geteuid() != 0 && (err == nil || !strings.Contains(string(out), "operation not permitted")) {
		t.Errorf("without privileges: error %v\n%s", err, out)
	}
}

// lastThread is another thread than the one that asked for the change.
func lastThread(t *testing.T) string {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("threads %v, error %v", tasks, err)
	}
	return tasks[len(tasks)-1].Name()
}
