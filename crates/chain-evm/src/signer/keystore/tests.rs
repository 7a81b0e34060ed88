use super::*;

const KEY: &str = "7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d";
const PASSWORD: &str = "testpassword";

/// The PBKDF2 vector of the specification. (Its scrypt vector has r = 1 and n = 2^18, which RFC 7914 does not allow.)
const PBKDF2: &str = r#"{"crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"6087dab2f9fdbbfaddc31a909735c1e6"},
"ciphertext":"5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46","kdf":"pbkdf2",
"kdfparams":{"c":262144,"dklen":32,
"prf":"hmac-sha256","salt":"ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd"},
"mac":"517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2"},
"id":"3198bc9c-6672-5ab3-d995-4942343ae5b6","version":3}"#;
/// A file of ethers.js 6.
const SCRYPT: &str = r#"{"address":"008aeeda4d805471df9b2a5b0f38a0c3bcba786b",
"id":"fbeaaf42-0169-450e-a206-12ecf82432aa","version":3,
"Crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"bb736cb83dac27f796a5f23a7f803db9"},
"ciphertext":"bf1db43fd55f6967d074888084f8b527a4b10f3b7f869808c8d7e7ba304f3556","kdf":"scrypt",
"kdfparams":{"salt":"5c0931d6cef9a35fd5ecc168a02e424cb12c7e68092794239dbbea15c7995659","n":4096,"dklen":32,"p":1,"r":8},
"mac":"aff6df9ba4aeab9678175033ea40cf3c3182189b304cb80b860aa2c56d8a59ba"}}"#;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gapless-keystore-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn keystore(&self) -> Keystore {
        Keystore::at(self.0.join("keys"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

#[test]
fn files_of_other_tools_are_decrypted() {
    let folder = Folder::new("vectors");
    for (name, text) in [("pbkdf2", PBKDF2), ("scrypt", SCRYPT)] {
        let path = folder.file(name, text);
        assert_eq!(alloy_primitives::hex::encode(*Keystore::decrypt(&path, &secret(PASSWORD)).unwrap()), KEY, "{name}");
    }
}

#[test]
fn created_key_is_decrypted_and_listed() {
    let folder = Folder::new("create");
    let keystore = folder.keystore();
    assert_eq!(keystore.list().unwrap(), []);
    let made = keystore.create_at(&secret("a"), Cost::TEST).unwrap();
    let key = parse_key(&secret(KEY)).unwrap();
    let imported = keystore.put(&key, &secret("b"), Cost::TEST).unwrap();
    folder.file("keys/readme.txt", "not a key file");
    let mut both = vec![made.clone(), imported.clone()];
    both.sort_by_key(|entry| entry.address);
    assert_eq!(keystore.list().unwrap(), both);

    let signer = LocalSigner::from_keystore(&made.file, &secret("a")).unwrap();
    assert_eq!(signer.address(), made.address);
    assert_eq!(LocalSigner::from_keystore(&imported.file, &secret("b")).unwrap().reveal().expose(), format!("0x{KEY}"));
    assert!(
        matches!(keystore.put(&key, &secret("c"), Cost::TEST), Err(KeystoreError::Exists(a)) if a == imported.address)
    );
    let names = std::fs::read_dir(folder.0.join("keys")).unwrap().count();
    assert_eq!(names, 3, "no temporary file is left");
}

#[cfg(unix)]
#[test]
fn key_files_are_readable_by_their_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new("mode");
    let entry = folder.keystore().create_at(&secret("a"), Cost::TEST).unwrap();
    assert_eq!(std::fs::metadata(&entry.file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(entry.file.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
}

/// proves X03
#[test]
fn key_and_password_are_hidden_in_files_and_errors() {
    let folder = Folder::new("secrets");
    let keystore = folder.keystore();
    let entry = keystore.put(&parse_key(&secret(KEY)).unwrap(), &secret(PASSWORD), Cost::TEST).unwrap();
    let text = std::fs::read_to_string(&entry.file).unwrap();
    let plain = folder.file("plain", KEY);
    let text_in_json = folder.file("json", &format!("{{\"version\":3,\"id\":\"{KEY}\"}}"));
    let other = Address::ZERO.to_string();
    let said = format!("{:#x}", entry.address);
    let mismatch =
        folder.file("mismatch", &text.replace(said.trim_start_matches("0x"), other.trim_start_matches("0x")));
    let errors = [
        Keystore::decrypt(&entry.file, &secret("testpassword2")).unwrap_err(),
        Keystore::decrypt(&plain, &secret(PASSWORD)).unwrap_err(),
        Keystore::decrypt(&text_in_json, &secret(PASSWORD)).unwrap_err(),
        Keystore::decrypt(&mismatch, &secret(PASSWORD)).unwrap_err(),
        Keystore::decrypt(&folder.0.join("none"), &secret(PASSWORD)).unwrap_err(),
        keystore.import(&secret(&KEY[2..]), &secret(PASSWORD)).unwrap_err(),
        keystore.import(&secret(KEY), &secret("")).unwrap_err(),
        keystore.put(&parse_key(&secret(KEY)).unwrap(), &secret(PASSWORD), Cost::TEST).unwrap_err(),
    ];
    assert!(matches!(errors[0], KeystoreError::WrongPassword { .. }));
    assert!(matches!(errors[3], KeystoreError::AddressMismatch { .. }));
    let mut shown: Vec<String> = errors.iter().map(|error| format!("{error} {error:?} {error:#?}")).collect();
    shown.push(text);
    shown.push(format!("{entry:?} {keystore:?}"));
    for text in shown {
        assert!(!text.contains(PASSWORD), "{text}");
        for part in KEY.as_bytes().windows(8).map(|part| std::str::from_utf8(part).unwrap()) {
            assert!(!text.contains(part), "{text}");
        }
    }
}

#[test]
fn file_with_excessive_parameters_is_refused() {
    let folder = Folder::new("bounds");
    for (from, to) in [("\"n\":4096", "\"n\":1099511627776"), ("\"n\":4096", "\"n\":3"), ("\"p\":1", "\"p\":800000")] {
        let path = folder.file("scrypt", &SCRYPT.replace(from, to));
        assert!(matches!(Keystore::decrypt(&path, &secret(PASSWORD)), Err(KeystoreError::Unsupported { .. })), "{to}");
    }
    let path = folder.file("pbkdf2", &PBKDF2.replace("262144", "4000000000"));
    assert!(matches!(Keystore::decrypt(&path, &secret(PASSWORD)), Err(KeystoreError::Unsupported { .. })));
}
