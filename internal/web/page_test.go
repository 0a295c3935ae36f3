package web

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestPageMakesNoHTML: what a peer wrote can become nothing but text, as the script has no way to make
// anything else of it.
func TestPageMakesNoHTML(t *testing.T) {
	script, err := pageFiles.ReadFile("page/page.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{
		"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "DOMParser", "createContextualFragment", "setHTML", "srcdoc",
		"parseFromString", "importScripts", "localStorage", "sessionStorage", "document.cookie", "import(", "javascript:", ".href", ".src",
	} {
		if strings.Contains(string(script), word) {
			t.Errorf("page.js has %s", word)
		}
	}
	if found := regexp.MustCompile(`setTimeout\(["'\x60]`).Find(script); found != nil {
		t.Errorf("a timer with text: %s", found)
	}
}

// TestPageIsWhole: the page has all that it names, runs nothing that is not in page.js, and names no
// other host.
func TestPageIsWhole(t *testing.T) {
	page, err := pageFiles.ReadFile("page/index.html")
	if err != nil {
		t.Fatal(err)
	}
	script, err := pageFiles.ReadFile("page/page.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(string(page), -1) {
		name := m[1]
		if id, ok := strings.CutPrefix(name, "#"); ok {
			if !strings.Contains(string(page), `id="`+id+`"`) {
				t.Errorf("%s leads nowhere", name)
			}
		} else if pageTypes[name] == "" {
			t.Errorf("%s is not served", name)
		}
	}
	if found := regexp.MustCompile(`(?i)\son[a-z]+=|\sstyle=|<style|<script>`).Find(page); found != nil {
		t.Errorf("index.html has %s", found)
	}
	for _, m := range regexp.MustCompile(`\$\("([a-z-]+)"\)`).FindAllStringSubmatch(string(script), -1) {
		if !strings.Contains(string(page), `id="`+m[1]+`"`) {
			t.Errorf("page.js asks for #%s, which is not in index.html", m[1])
		}
	}
	files := 0
	err = fs.WalkDir(pageFiles, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		text, err := pageFiles.ReadFile(name)
		if err != nil {
			return err
		}
		for _, url := range regexp.MustCompile(`(?:https?:)?//[a-z0-9.-]+\.[a-z]+[^ "')]*`).FindAllString(string(text), -1) {
			if !strings.HasPrefix(url, "http://www.w3.org/") { // a name of XML, which nobody asks for
				t.Errorf("%s names %s", path.Base(name), url)
			}
		}
		if strings.Contains(string(text), "@import") || strings.Contains(string(text), "url(") {
			t.Errorf("%s loads something", name)
		}
		return nil
	})
	if err != nil || files != len(pageTypes) {
		t.Errorf("%d files, %v; %d are served", files, err, len(pageTypes))
	}
}
