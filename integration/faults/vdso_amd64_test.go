//go:build faults

package faults

// clockCode stands for the kernel's own clock_gettime, which a program calls without
// a system call: it makes that call, and adds what stands behind it to the seconds of
// CLOCK_REALTIME.
var clockCode = []byte{
	0xb8, 228, 0, 0, 0, // mov eax, 228 (clock_gettime)
	0x0f, 0x05, //         syscall
	0x85, 0xff, //         test edi, edi (CLOCK_REALTIME)
	0x75, 10, //           jne to ret
	0x48, 0x8b, 0x0d, 6, 0, 0, 0, // mov rcx, [rip+6]
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3,       //       ret
	0x90, 0x90, // so that the number that follows is aligned
}
