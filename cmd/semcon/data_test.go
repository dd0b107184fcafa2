package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/experiments"
)

func TestDataSaysWhatIsThere(t *testing.T) {
	m := newMachine(t)
	t.Setenv("SEMCON_DATA", "")
	const batches = "data/cifar10/cifar-10-batches-bin/"
	m.Write(t, batches+"data_batch_1.bin", strings.Repeat("\x07"+strings.Repeat("x", 3072), 3))
	stdout, stderr, status := outcome(t, semcon(t, m, "data", "--data", "data"))
	if status != 0 || stderr != "" {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	for _, want := range []string{
		"ok       CIFAR-10     train  short: 3 of 50000 images\n",
		" data/cifar10/cifar-10-batches-bin\n",
		" CIFAR-10 train (data_batch_1.bin): 3 images 32×32, 10 classes, sha256 ",
		"missing  CIFAR-10     test   CIFAR-10 has no test images: data/cifar10/cifar-10-batches-bin/test_batch.bin does not exist\n",
		"missing  CIFAR-100    train  no CIFAR-100 in data: cifar100/cifar-100-binary does not exist (\"semcon data fetch cifar100 --data data\" downloads it)\n",
		"missing  ImageNet-1k  train  ImageNet-1k has no train images: data/imagenet/train does not exist\n",
		"missing  DAVIS        test   no DAVIS in data: DAVIS/JPEGImages/480p does not exist\n",
		"ok       synthetic    both   needs no data\n",
		"\n\"semcon data fetch DATASET --data data\" downloads, or says how to get:\n",
		"\n  coco           21.3 GB  COCO 2017\n",
		"\n  imagenet       by hand  ImageNet-1k\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}

	// A wrong size is found from the size of the file, a wrong label only on reading.
	m.Write(t, batches+"data_batch_2.bin", strings.Repeat("x", 100))
	m.Write(t, batches+"test_batch.bin", strings.Repeat("\xff", 3073))
	stdout, stderr, status = outcome(t, semcon(t, m, "data", "--data", "data"))
	if status != 1 {
		t.Errorf("exit status %d with broken data", status)
	}
	wantLine(t, stderr, "semcon data: 2 broken, see above")
	for _, want := range []string{"data_batch_2.bin: 100 stray bytes after 0 records", "test_batch.bin: record 0 has label 255, want 0 to 9"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

func TestDataWithoutAFolder(t *testing.T) {
	m := newMachine(t)
	t.Setenv("SEMCON_DATA", "")
	stdout, _, status := outcome(t, semcon(t, m, "data"))
	if status != 0 || strings.Count(stdout, "\n") != 1 || !strings.Contains(stdout, "SEMCON_DATA") {
		t.Errorf("exit status %d:\n%s", status, stdout)
	}
	_, stderr, status := outcome(t, semcon(t, m, "data", "--data", "nowhere"))
	if status != 1 {
		t.Errorf("exit status %d without the folder", status)
	}
	wantLine(t, stderr, "semcon data: --data nowhere: ", "nowhere")
}

func TestDataFetchUsage(t *testing.T) {
	m := newMachine(t)
	t.Setenv("SEMCON_DATA", "")
	for _, test := range []struct{ args, want string }{
		{"get", `"get"`},
		{"fetch", "cifar10 or cifar100 or tiny-imagenet or voc2012"},
		{"--for video", "the word fetch is missing: semcon data fetch --for video"},
		{"fetch davis --for video --data data", "--for video: name datasets or an experiment, not both"},
		{"fetch --for vidoe --data data", `unknown experiment "vidoe": did you mean video?`},
		{"fetch voc", `cannot fetch dataset "voc"`},
		{"fetch cifar10", "--data FOLDER or SEMCON_DATA"},
		{"fetch cifar10 mnist --data data", `cannot fetch dataset "mnist", only cifar10, cifar100, tiny-imagenet, voc2012, ade20k, coco, davis, spair, imagenet, cityscapes, camvid`},
	} {
		stdout, stderr, status := outcome(t, semcon(t, m, append([]string{"data"}, strings.Fields(test.args)...)...))
		if status != 2 || stdout != "" {
			t.Errorf("%s: exit status %d, printed %q", test.args, status, stdout)
		}
		wantLine(t, stderr, "semcon data: ", test.want)
	}
}

func TestDataFetchRefusesWhatIsNotTheDataset(t *testing.T) {
	m := newMachine(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/mirror/cifar-100-binary.tar.gz" {
			http.NotFound(w, r)
			return
		}
		w.Write([]byte("no archive"))
	}))
	defer web.Close()
	_, stderr, status := outcome(t, semcon(t, m, "data", "fetch", "cifar100", "--data", "data", "--from", web.URL+"/mirror"))
	lines := strings.SplitAfter(stderr, "\n")
	if status != 1 || !strings.HasPrefix(lines[0], "cifar-100-binary.tar.gz (MB)  0") {
		t.Errorf("exit status %d, progress %q", status, lines[0])
	}
	wantLine(t, strings.Join(lines[1:], ""),
		"semcon data: data/cifar100.partial/cifar-100-binary.tar.gz: MD5 digest ", ", want 03b5dce01913d631647c71ecec9e9cb8: removed")

	_, stderr, status = outcome(t, semcon(t, m, "data", "fetch", "cifar10", "--data", "data", "--from", web.URL+"/mirror"))
	if status != 1 {
		t.Errorf("exit status %d", status)
	}
	wantLine(t, stderr, "semcon data: "+web.URL+"/mirror/cifar-10-binary.tar.gz: 404 Not Found")
}

func TestDataFetchLeavesAWholeDatasetAlone(t *testing.T) {
	m := newMachine(t)
	for _, name := range []string{"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"} {
		file := "data/cifar10/cifar-10-batches-bin/" + name + ".bin"
		m.Write(t, file, "")
		if err := os.Truncate(m.Path(file), 10000*3073); err != nil { // The zeros take no room.
			t.Fatal(err)
		}
	}
	stdout, stderr, status := outcome(t, semcon(t, m, "data", "fetch", "cifar10", "--data", "data", "--from", "http://127.0.0.1:1"))
	want := "CIFAR-10 train: 50000 images in data/cifar10/cifar-10-batches-bin\nCIFAR-10 test: 10000 images in data/cifar10/cifar-10-batches-bin\n"
	if status != 0 || stderr != "" || stdout != want {
		t.Errorf("exit status %d, printed %q %q", status, stdout, stderr)
	}
}

// TestDataFetchSaysWhatAPersonHasToDo for datasets that need an account.
func TestDataFetchSaysWhatAPersonHasToDo(t *testing.T) {
	m := newMachine(t)
	stdout, stderr, status := outcome(t, semcon(t, m, "data", "fetch", "cityscapes", "imagenet", "--data", "data"))
	if status != 1 {
		t.Errorf("exit status %d", status)
	}
	wantLine(t, stderr, "semcon data: ImageNet-1k and Cityscapes: to be got by hand, see above")
	for _, want := range []string{"https://image-net.org", "data/imagenet/train/n01440764/*.JPEG", "https://www.cityscapes-dataset.com", "Unpack both in data/cityscapes"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

// TestDataFetchForAnExperiment asks for what the experiment lacks, and for nothing else.
func TestDataFetchForAnExperiment(t *testing.T) {
	m := newMachine(t)
	var requested []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requested = append(requested, r.URL.Path)
		http.NotFound(w, r)
	}))
	defer web.Close()
	fetch := func(experiment string) (string, string, int) {
		requested = nil
		return outcome(t, semcon(t, m, "data", "fetch", "--for", experiment, "--data", "data", "--from", web.URL))
	}
	stdout, stderr, status := fetch("video")
	if status != 1 || len(requested) != 1 || requested[0] != "/DAVIS-2017-trainval-480p.zip" {
		t.Errorf("exit status %d, requests %v", status, requested)
	}
	wantLine(t, stderr, "semcon data: "+web.URL+"/DAVIS-2017-trainval-480p.zip: 404 Not Found")
	for _, want := range []string{"davis: DAVIS-2017 in 480p, into data/DAVIS\n", ": 0.8 GB, unpacked at most 0.9 GB; SHA-256 published\n", "1.7 GB of disk needed, "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	if stdout, stderr, status := fetch("noise-tolerance"); status != 0 || stdout != "noise-tolerance lacks no dataset\n" || stderr != "" {
		t.Errorf("exit status %d, printed %q %q", status, stdout, stderr)
	}
	for _, file := range []string{"train/sky.jpg", "trainannot/sky.png", "test/sky.jpg", "testannot/sky.png"} {
		m.Write(t, "data/CamVid/"+file, "x")
	}
	// The disk may be too small for COCO: it is refused, or the server is asked.
	stdout, _, status = fetch("transfer")
	if status != 1 || !strings.Contains(stdout, "Cityscapes needs an account") || strings.Contains(stdout, "CamVid") {
		t.Errorf("exit status %d\n%s", status, stdout)
	}
	for _, want := range []string{"voc2012: ", "ade20k: ", "coco: "} {
		if !strings.Contains(stdout, "\n"+want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	for _, e := range experiments.All() {
		for _, name := range e.Reads {
			if len(datasets.Available("", name)) == 0 {
				t.Errorf("%s reads %s, which is no dataset", e.Name, name)
			}
		}
		if e.GeneratesData != (e.Reads == nil) {
			t.Errorf("%s reads %v", e.Name, e.Reads)
		}
	}
}

// TestClassFoldersAreNamed has class folders, and archives of them, which a run can use.
func TestClassFoldersAreNamed(t *testing.T) {
	for _, files := range [][]string{{"train/a/x.png", "test/a/x.png"}, {"train.zip", "test.zip"}} {
		m := newMachine(t)
		for _, file := range files {
			m.Write(t, "data/"+file, "")
		}
		where := "class folders in data/" + strings.TrimSuffix(files[0], "/a/x.png") + " and "
		for _, verb := range []string{"data", "list"} {
			stdout, stderr, status := outcome(t, semcon(t, m, verb, "--data", "data"))
			if !strings.Contains(stdout, where) || status != 0 || strings.Contains(stdout, "broken") {
				t.Errorf("semcon %s does not take %v for images: exit status %d, %s\n%s", verb, files, status, stderr, stdout)
			}
		}
	}
}
