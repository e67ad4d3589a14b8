package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func here() Place {
	var p Place
	p.Machine, _ = unix.Sysctl("kern.uuid")
	p.Boot, _ = unix.Sysctl("kern.bootsessionuuid")
	return p
}

// inspect reads the start time of a process, in seconds since 1970; ended: it is a zombie.
func inspect(pid int) (born string, ended bool) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid {
		return "", false
	}
	const zombie = 5
	return fmt.Sprintf("%d.%06d", k.Proc.P_starttime.Sec, k.Proc.P_starttime.Usec), k.Proc.P_stat == zombie
}
