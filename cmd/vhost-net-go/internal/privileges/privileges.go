// Package privileges changes the user that the daemon runs as.
package privileges

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// Identity is whom to run as.
type Identity struct{ UID, GID int }

// ErrUnknown is wrapped when there is no such user or group.
var ErrUnknown = errors.New("is unknown here")

// Lookup reads UID, UID:GID, LOGIN or LOGIN:GROUP; parts may be mixed. A user
// without a group has its own; a number that no user has, the group of the same
// number.
func Lookup(spec string) (Identity, error) {
	login, group, hasGroup := strings.Cut(spec, ":")
	var id Identity
	u, err := user.Lookup(login)
	if n, nerr := number(login); nerr == nil {
		id = Identity{UID: n, GID: n}
		if u, err = user.LookupId(login); err != nil {
			u, err = nil, nil
		}
	}
	if err != nil {
		return Identity{}, fmt.Errorf("user %q %w", login, ErrUnknown)
	}
	if u != nil {
		if id.UID, err = number(u.Uid); err != nil {
			return Identity{}, err
		}
		if id.GID, err = number(u.Gid); err != nil {
			return Identity{}, err
		}
	}
	if !hasGroup {
		return id, nil
	}
	if id.GID, err = number(group); err == nil {
		return id, nil
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		return Identity{}, fmt.Errorf("group %q %w", group, ErrUnknown)
	}
	id.GID, err = number(g.Gid)
	return id, err
}

// number reads an id: 32 bits, of which all ones mean none (chown(2)).
func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 1<<32-1 {
		return 0, fmt.Errorf("%q: must be a number below %d", text, uint32(1<<32-1))
	}
	return int(n), nil
}

// Become changes the whole process, all threads, to id, with no other groups. It
// does nothing if the process runs as id already.
func Become(id Identity) error {
	if os.Getuid() == id.UID && os.Geteuid() == id.UID && os.Getgid() == id.GID && os.Getegid() == id.GID {
		return nil
	}
	if err := syscall.Setgroups([]int{}); err != nil {
		return os.NewSyscallError("setgroups", err)
	}
	if err := syscall.Setresgid(id.GID, id.GID, id.GID); err != nil {
		return os.NewSyscallError("setresgid", err)
	}
	if err := syscall.Setresuid(id.UID, id.UID, id.UID); err != nil {
		return os.NewSyscallError("setresuid", err)
	}
	return nil
}

// IsHostRoot reports whether the process is root of the machine, and not only of
// a user namespace, where root is somebody else's own user.
func IsHostRoot() bool {
	if os.Geteuid() != 0 {
		return false
	}
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && mapsAll(string(text))
}

// mapsAll recognises the map of the first user namespace: all ids to themselves.
func mapsAll(uidMap string) bool {
	f := strings.Fields(uidMap)
	return len(f) == 3 && f[0] == "0" && f[1] == "0" && f[2] == "4294967295"
}
