package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMakeInstallSaysWhatIsNext: the last command of make install says whether a shell finds the programs, how it
// does else, and what to type then.
func TestMakeInstallSaysWhatIsNext(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, recipe, found := strings.Cut(string(makefile), "\ninstall: build ")
	_, recipe, told := strings.Cut(recipe, "\n\t@")
	recipe, _, _ = strings.Cut(recipe, "\n\n")
	if !found || !told {
		t.Fatal("the Makefile has no target install whose last command says something")
	}
	prefix := filepath.Join(t.TempDir(), "my folder")
	script := strings.NewReplacer("$(PREFIX)", prefix, "$$", "$").Replace(recipe)
	run := func(script, path string) string {
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.Env = []string{"PATH=" + path}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	if out := run(script, "/usr/bin:"+prefix+"/bin:/bin"); out != "Now: acpctl up\n" {
		t.Errorf("in PATH: %q", out)
	}
	out := run(script, "/usr/bin:/bin")
	before, line, _ := strings.Cut(out, "\n\n")
	line, after, _ := strings.Cut(line, "\n\n")
	if !strings.HasPrefix(before, prefix+"/bin is not in your PATH. ") || after != "Then: acpctl up\n" {
		t.Errorf("not in PATH: %q", out)
	}
	if path := run(line+`; echo "$PATH"`, "/usr/bin:/bin"); path != prefix+"/bin:/usr/bin:/bin\n" {
		t.Errorf("%q sets %q", line, path)
	}
}
