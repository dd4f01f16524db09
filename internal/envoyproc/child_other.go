//go:build !linux

package envoyproc

import "syscall"

// childAttributes puts the child in its own process group, so that Ctrl-C in a
// terminal reaches the parent only, which then stops the child in its own order.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
